"""The shortest match of a regex, found over bytes by outlines-core."""

from __future__ import annotations

from collections import deque

from outlines_core import Index, Vocabulary

from agentrt.structured.backends.outlines_table import END_MARKER, START_MARKER
from agentrt.structured.json_schema.regex_text import cost_of, minimal_regex

_START, _END, _UNUSED = 256, 257, 258
_MAX_STATES = 20_000
_MAX_WIDE = 8
_READABLE = tuple(dict.fromkeys(b"a1A0" + bytes(range(32, 127))))


def shortest_match(pattern: str) -> str | None:
    """The shortest text that `pattern` matches as a whole, readable if there is a choice.

    None if the pattern cannot be searched safely, or matches nothing.
    """
    small = minimal_regex(pattern)
    cost = cost_of(small)
    if cost.broad or cost.states > _MAX_STATES or cost.wide_after_choice > _MAX_WIDE:
        return None
    letters: dict[str | bytes, list[int]] = {bytes([b]): [b] for b in range(256)}
    letters |= {START_MARKER.encode(): [_START], END_MARKER.encode(): [_END]}
    try:
        index = Index(f"{START_MARKER}(?:{small}){END_MARKER}", Vocabulary(_UNUSED, letters))
        found = _search(index)
        return None if found is None else found.decode()
    except (ValueError, OverflowError):  # unknown syntax, or a part of a character
        return None


def _search(index: Index) -> bytes | None:
    """Breadth-first search: the first end is the nearest."""
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    final = index.get_final_states()
    start = transitions[index.get_initial_state()][_START]
    frontier = deque([(start, b"")])
    seen = {start}
    while frontier:
        state, text = frontier.popleft()
        steps = transitions.get(state, {})
        if steps.get(_END) in final:
            return text
        for byte in (*_READABLE, *(b for b in steps if b < 256)):
            target = steps.get(byte)
            if target is not None and target not in seen:
                seen.add(target)
                frontier.append((target, text + bytes([byte])))
    return None
