"""Small regexes as automata over bytes, built by outlines-core."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outlines_core import Index, Vocabulary

from agentrt.structured.json_schema.regex_text import END_MARKER, cost_of

_END, _UNUSED = 256, 257
_MAX_STATES = 500
_MAX_WIDE = 8
_ESCAPED = {ord(name): byte for name, byte in zip('"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True)}
_BARE = frozenset(range(256)) - frozenset(b'"\\\x7f') - frozenset(range(32))


class AutomatonTooLarge(Exception):
    """A regex has too many states, or none that its library can build."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteAutomaton:
    """A deterministic automaton; the first state is the initial one.

    Attributes:
        steps: By state: the state after each allowed byte.
        accepting: By state: whether a text may end there.
    """

    steps: Sequence[Mapping[int, int]]
    accepting: Sequence[bool]


@functools.lru_cache(maxsize=1024)
def automaton_of(pattern: str) -> ByteAutomaton:
    """The automaton of a regex, matched as a whole.

    Raises:
        AutomatonTooLarge: The regex has too many states, or unknown syntax.
    """
    cost = cost_of(pattern)
    if cost.states > _MAX_STATES or cost.wide_after_choice > _MAX_WIDE:
        raise AutomatonTooLarge
    letters: dict[str | bytes, list[int]] = {bytes([b]): [b] for b in range(256)}
    letters[END_MARKER.encode()] = [_END]
    try:
        index = Index(f"(?:{pattern}){END_MARKER}", Vocabulary(_UNUSED, letters))
    except (ValueError, OverflowError):
        raise AutomatonTooLarge from None
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    final = index.get_final_states()

    def steps(state: int) -> dict[int, int]:
        return {b: after for b, after in transitions.get(state, {}).items() if b < 256}

    def accepts(state: int) -> bool:
        return transitions.get(state, {}).get(_END) in final

    return _explored(index.get_initial_state(), steps, accepts)


def in_json_string(automaton: ByteAutomaton) -> ByteAutomaton:
    r"""The same texts as written in a JSON string, without the quotes and `\u` escapes."""
    State = tuple[int, bool]  # and whether an escape has begun

    def steps(state: State) -> dict[int, State]:
        at, escaped = state
        row = automaton.steps[at]
        if escaped:
            return {b: (row[c], False) for b, c in _ESCAPED.items() if c in row}
        found: dict[int, State] = {b: (after, False) for b, after in row.items() if b in _BARE}
        if any(c in row for c in _ESCAPED.values()):
            found[ord("\\")] = (at, True)
        return found

    return _explored((0, False), steps, lambda state: automaton.accepting[state[0]] > state[1])


def _explored(
    start: Any, steps: Callable[[Any], dict[int, Any]], accepts: Callable[[Any], bool]
) -> ByteAutomaton:
    """The automaton of all states that are reached from `start`."""
    numbers = {start: 0}
    todo = [start]
    rows: list[dict[int, int]] = []
    while len(rows) < len(todo):
        row: dict[int, int] = {}
        for byte, after in steps(todo[len(rows)]).items():
            if after not in numbers:
                if len(numbers) >= _MAX_STATES:
                    raise AutomatonTooLarge
                numbers[after] = len(todo)
                todo.append(after)
            row[byte] = numbers[after]
        rows.append(row)
    return ByteAutomaton(rows, [accepts(state) for state in todo])
