"""Sets of texts given by regexes: what two share, what one lacks, and the regex of the result.

Patterns become automata over bytes, in the dialect of the grammar compiler, so that all answers are
exact for it. What is too large for an automaton has no answer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentrt.structured.json_schema.byte_automaton import AutomatonTooLarge, automaton_of
from agentrt.structured.json_schema.regex_text import anywhere, escape_regex, whole_match

MAX_STATES = 200
MAX_PATTERN_CHARS = 8_000

_LAST = 0x10FFFD
"""The last code point: the two noncharacters behind it serve as marks in automata."""
_BEYOND = re.compile("10ff(?!fd)|[\U0010fffe\U0010ffff]", re.IGNORECASE)
_LEADS = ((0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3))
"""Ranges of first bytes beyond ASCII, with the number of bytes that follow."""

Ranges = list[tuple[int, int]]
Steps = Sequence[Mapping[int, int]]
Tails = dict[tuple[int, int], list[tuple[int, int, int]]]
"""By state and number of bytes: ranges of the numbers that they spell, each with its state."""


class TooComplex(Exception):
    """An automaton has too many states, or its regex too many characters."""


@dataclass(frozen=True, slots=True, eq=False)
class TextLanguage:
    """A set of texts, as an automaton over characters; the first state is the initial one.

    Attributes:
        steps: By state: for each state after it, the code points that lead there.
        accepting: By state: whether a text may end there.
    """

    steps: tuple[dict[int, Ranges], ...]
    accepting: tuple[bool, ...]

    def both(self, other: TextLanguage) -> TextLanguage:
        """The texts of both sets."""
        return _combined(self, other, lambda here, there: here and there)

    def without(self, other: TextLanguage) -> TextLanguage:
        """The texts of this set that are not in the other."""
        return _combined(self, other, lambda here, there: here and not there)

    def either(self, other: TextLanguage) -> TextLanguage:
        """The texts of any of the two sets."""
        return _combined(self, other, lambda here, there: here or there)

    @property
    def is_empty(self) -> bool:
        """Whether no text is in the set."""
        return not self._live()

    def holds(self, text: str) -> bool:
        """Whether a text is in the set."""
        state: int | None = 0
        for code in map(ord, text):
            if state is None:
                return False
            ways = self.steps[state].items()
            found = (after for after, ranges in ways for low, high in ranges if low <= code <= high)
            state = next(found, None)
        return state is not None and self.accepting[state]

    def pattern(self) -> str:
        """A JSON Schema `pattern` of exactly these texts.

        Raises:
            TooComplex: The pattern has more than 8,000 characters.
        """
        return f"^(?:{_regex_of(self)})$"

    def _live(self) -> set[int]:
        """States from which a text of the set can be completed; empty for the empty set."""
        found = {state for state, ends in enumerate(self.accepting) if ends}
        while True:
            more = {s for s, row in enumerate(self.steps) if s not in found and row.keys() & found}
            if not more:
                return found if 0 in found else set()
            found |= more


@functools.lru_cache(maxsize=256)
def matching(pattern: str) -> TextLanguage:
    """The texts that contain a match of a JSON Schema `pattern`.

    Raises:
        TooComplex: The automaton has too many states.
    """
    try:
        automaton = automaton_of(whole_match(anywhere(pattern)))
    except AutomatonTooLarge:
        raise TooComplex from None
    if _BEYOND.search(pattern):
        raise TooComplex
    rows: dict[int, dict[int, Ranges]] = {}
    todo = [0]
    known: Tails = {}
    for state in todo:  # grows as states are met
        row: dict[int, Ranges] = {}
        for low, high, after in _characters(automaton.steps, state, known):
            if low <= _LAST:
                row.setdefault(after, []).append((low, min(high, _LAST)))
        rows[state] = {after: _joined(ranges) for after, ranges in row.items()}
        todo += [after for after in row if after not in todo]
        if len(todo) > MAX_STATES:
            raise TooComplex
    numbers = {state: number for number, state in enumerate(todo)}
    return TextLanguage(
        tuple({numbers[a]: ranges for a, ranges in rows[state].items()} for state in todo),
        tuple(automaton.accepting[state] for state in todo),
    )


def these(texts: list[str]) -> TextLanguage:
    """The set of some texts.

    Raises:
        TooComplex: They are too many.
    """
    return matching(f"^(?:{'|'.join(map(escape_regex, texts))})$") if texts else NO_TEXT


def _characters(steps: Steps, state: int, known: Tails) -> Iterator[tuple[int, int, int]]:
    """Ranges of code points, each with the state after it."""
    row = steps[state]
    yield from ((byte, byte, after) for byte, after in row.items() if byte < 0x80)
    for first, last, more in _LEADS:
        for lead in range(first, last + 1):
            if lead in row:
                base = (lead & (0x3F >> more)) << 6 * more
                tails = _tails(steps, row[lead], more, known)
                yield from ((base + low, base + high, after) for low, high, after in tails)


def _tails(steps: Steps, state: int, more: int, known: Tails) -> list[tuple[int, int, int]]:
    """Ranges of the numbers that `more` continuation bytes spell, each with the state after it."""
    if not more:
        return [(0, 0, state)]
    if (state, more) not in known:
        bits = 6 * (more - 1)
        known[state, more] = _merged(
            [
                ((byte & 0x3F) << bits | low, (byte & 0x3F) << bits | high, last)
                for byte, after in steps[state].items()
                for low, high, last in _tails(steps, after, more - 1, known)
            ]
        )
    return known[state, more]


def _merged(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    by_state: dict[int, Ranges] = {}
    for low, high, after in found:
        by_state.setdefault(after, []).append((low, high))
    return [(low, high, a) for a, ranges in by_state.items() for low, high in _joined(ranges)]


def _joined(ranges: Ranges) -> Ranges:
    """The same code points in as few ranges as possible."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _combined(
    one: TextLanguage, other: TextLanguage, ends: Callable[[bool, bool], bool]
) -> TextLanguage:
    """The product of two automata; state -1 stands for no way on."""
    numbers = {(0, 0): 0}
    todo = [(0, 0)]
    rows: list[dict[int, Ranges]] = []
    for here, there in todo:  # grows as states are met
        row: dict[int, Ranges] = {}
        for low, high, pair in _split(_row(one, here), _row(other, there)):
            if pair == (-1, -1):
                continue
            if pair not in numbers:
                numbers[pair] = len(todo)
                todo.append(pair)
                if len(todo) > MAX_STATES:
                    raise TooComplex
            row.setdefault(numbers[pair], []).append((low, high))
        rows.append({after: _joined(ranges) for after, ranges in row.items()})
    accepting = tuple(
        ends(h >= 0 and one.accepting[h], t >= 0 and other.accepting[t]) for h, t in todo
    )
    return _trimmed(TextLanguage(tuple(rows), accepting))


def _row(language: TextLanguage, state: int) -> list[tuple[int, int, int]]:
    """The ranges of a state, sorted, with all gaps filled by -1."""
    steps = language.steps[state] if state >= 0 else {}
    known = sorted((low, high, after) for after, ranges in steps.items() for low, high in ranges)
    found, at = [], 0
    for low, high, after in known:
        if at < low:
            found.append((at, low - 1, -1))
        found.append((low, high, after))
        at = high + 1
    if at <= _LAST:
        found.append((at, _LAST, -1))
    return found


def _split(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    at, i, j = 0, 0, 0
    while at <= _LAST:
        end = min(one[i][1], other[j][1])
        yield at, end, (one[i][2], other[j][2])
        i, j = i + (one[i][1] == end), j + (other[j][1] == end)
        at = end + 1


def _trimmed(language: TextLanguage) -> TextLanguage:
    """The same set without states that lead to no text."""
    live = language._live()
    if not live:
        return NO_TEXT
    order = sorted(live)
    numbers = {state: number for number, state in enumerate(order)}
    rows = tuple(
        {numbers[a]: ranges for a, ranges in language.steps[state].items() if a in live}
        for state in order
    )
    return TextLanguage(rows, tuple(language.accepting[state] for state in order))


NO_TEXT = TextLanguage(({},), (False,))
ANY_TEXT = TextLanguage(({0: [(0, 0xD7FF), (0xE000, _LAST)]},), (True,))


def _regex_of(language: TextLanguage) -> str:
    """The regex of an automaton, by eliminating its states, those with the fewest ways first."""
    start, end = -1, -2
    ways: dict[int, dict[int, str]] = {start: {0: ""}, end: {}}
    for state, row in enumerate(language.steps):
        ways[state] = {after: _class(ranges) for after, ranges in row.items()}
        if language.accepting[state]:
            ways[state][end] = ""
    left = set(range(len(language.steps)))
    while left:
        into = {s: [a for a in ways if s in ways[a] and a != s] for s in left}
        state = min(left, key=lambda s: (len(into[s]) * len(ways[s]), s))
        left.discard(state)
        out = ways.pop(state)
        loop = out.pop(state, None)
        again = "" if loop is None else f"(?:{loop})*"
        for before in into[state]:
            first = ways[before].pop(state)
            for after, rest in out.items():
                way = f"{_in_sequence(first)}{again}{_in_sequence(rest)}"
                known = ways[before].get(after)
                ways[before][after] = way if known is None else _or(known, way)
                if len(ways[before][after]) > MAX_PATTERN_CHARS:
                    raise TooComplex
    return ways[start].get(end, r"[^\s\S]")


def _or(one: str, other: str) -> str:
    """Any of two ways, of which one may be empty."""
    if not one or not other:
        return f"(?:{one or other})?"
    return f"{one}|{other}"


def _in_sequence(regex: str) -> str:
    return f"(?:{regex})" if "|" in regex else regex


def _class(ranges: Ranges) -> str:
    """A class of some code points."""
    return "[" + "".join(_range(low, high) for low, high in ranges) + "]"


def _range(low: int, high: int) -> str:
    return f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}"
