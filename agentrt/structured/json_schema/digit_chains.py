"""Terminals of the digits of multiples: a chain of rules, each for what is left and its remainder.

The regex of a remainder is long: one for 7 has thousands of characters. As rules of a grammar the
states share what follows them, and the compiler's derivative of a rule is another rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from agentrt.base.record import record
from agentrt.structured.json_schema.lark_text import LarkPart

_State = tuple[int, int]
"""Count of what is left, which gets less with each character, and the remainder so far."""

_ZEROS = "/[0.]*/"
"""Zeros may follow a multiple, behind a point if there is one."""


@record
class LeadingDigits:
    """Texts whose digits are a multiple of a number without the factors 2 and 5.

    Ten has no factor with such a number, so the point does not matter, nor do zeros at the end.

    Attributes:
        divisor: The number.
        most: Maximum number of characters before the zeros at the end.
        has_point: Whether other digits than zeros may follow a point.
    """

    divisor: int
    most: int
    has_point: bool

    @property
    def states(self) -> int:
        """Bound on the number of rules."""
        return self.divisor * self.most

    def part(self, prefix: str) -> LarkPart:
        """The terminal; `prefix` begins the names of its rules."""
        return _part([("", (self.most, 0))], self, prefix)

    def is_end(self, state: _State) -> bool:
        """Whether the text may end here, but for zeros."""
        return state[1] == 0

    def moves(self, state: _State) -> Iterator[tuple[str, _State]]:
        """The characters that may follow, and where they lead."""
        left, rest = state
        if left == 0:
            return
        for digit in range(10):
            yield str(digit), (left - 1, (10 * rest + digit) % self.divisor)
        if self.has_point:
            yield ".", (left - 1, rest)


@record
class LastDigits:
    """Texts of the multiples of a decimal whose only factors are 2 and 5, by their last digits.

    Attributes:
        divisor: The decimal without its point.
        places: Digits behind the point.
    """

    divisor: int
    places: int

    @property
    def states(self) -> int:
        """Number of rules that cost as much: where the last digits begin is not known."""
        return 10 * self.divisor

    def part(self, prefix: str) -> LarkPart:
        """The terminal; `prefix` begins the names of its rules."""
        count = 0
        while 10**count % self.divisor:
            count += 1
        shorter = [("", (2 * left + 1, 0)) for left in range(self.places + 1, count)]
        return _part([("/[0-9]*/ ", (2 * count + 1, 0)), *shorter], self, prefix)

    def is_end(self, state: _State) -> bool:
        """Whether the text may end here, but for zeros."""
        left, is_whole = divmod(state[0], 2)
        return state[1] == 0 and (left == self.places or not is_whole)

    def moves(self, state: _State) -> Iterator[tuple[str, _State]]:
        """The characters that may follow, and where they lead; odd states are before the point."""
        (left, is_whole), rest = divmod(state[0], 2), state[1]
        if is_whole and left == self.places:
            yield ".", (state[0] - 1, rest)
        elif left:
            kept = self.divisor // math.gcd(self.divisor, 10 ** (left - 1))
            for digit in range(10):
                yield str(digit), (state[0] - 2, (10 * rest + digit) % kept)


DigitChain = LeadingDigits | LastDigits


def _part(starts: Iterable[tuple[str, _State]], chain: DigitChain, prefix: str) -> LarkPart:
    """The rules from some states, each behind a text; states without an end are left out."""
    starts = list(starts)
    moves: dict[_State, list[tuple[str, _State]]] = {}
    todo = [state for _, state in starts]
    while todo:
        state = todo.pop()
        if state not in moves:
            moves[state] = list(chain.moves(state))
            todo += (reached for _, reached in moves[state])
    rules: dict[_State, str] = {}
    for state in sorted(moves):  # those with less left come first
        targets: dict[_State, str] = {}
        for char, reached in moves[state]:
            if reached in rules:
                targets[reached] = targets.get(reached, "") + char
        options = [_ZEROS] if chain.is_end(state) else []
        options += [f"{_class(chars)} {_name(prefix, to)}" for to, chars in targets.items()]
        if options:
            rules[state] = f"{_name(prefix, state)}: {' | '.join(options)}"
    wholes = [f"{before}{_name(prefix, state)}" for before, state in starts if state in rules]
    return LarkPart(f'"-"? ({" | ".join(wholes)})', tuple(rules.values()))


def _name(prefix: str, state: _State) -> str:
    return f"{prefix}_{state[0]}_{state[1]}"


def _class(chars: str) -> str:
    return f'"{chars}"' if len(chars) == 1 else f"/[{chars}]/"
