"""The shortest text that a regex matches, found over bytes by outlines-core."""

from __future__ import annotations

from outlines_core import Index, Vocabulary

from agentrt.structured.backends.outlines_table import END_MARKER, START_MARKER
from agentrt.structured.json_schema.regex_text import cost_of, least

_START, _END, _UNUSED = 256, 257, 258
_MAX_STATES = 20_000
_MAX_WIDE = 8
_READABLE = tuple(dict.fromkeys(b"a1A0" + bytes(range(32, 127))))


def shortest_match(pattern: str) -> str | None:
    """The shortest text that the whole of `pattern` matches, readable where there is a choice.

    None when the pattern cannot be searched safely, or matches nothing.
    """
    small = least(pattern)
    cost = cost_of(small)
    if cost.broad or cost.states > _MAX_STATES or cost.wide_after_choice > _MAX_WIDE:
        return None
    letters: dict[str | bytes, list[int]] = {bytes([b]): [b] for b in range(256)}
    letters[START_MARKER.encode()] = [_START]
    letters[END_MARKER.encode()] = [_END]
    try:
        index = Index(f"{START_MARKER}(?:{small}){END_MARKER}", Vocabulary(_UNUSED, letters))
    except (ValueError, OverflowError):
        return None
    found = _search(index)
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return None


def _search(index: Index) -> bytes | None:
    """Breadth first, so that the first end is the nearest."""
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    final = index.get_final_states()
    start = transitions[index.get_initial_state()][_START]
    border: list[tuple[int, bytes]] = [(start, b"")]
    seen = {start}
    while border:
        onward: list[tuple[int, bytes]] = []
        for state, text in border:
            steps = transitions.get(state, {})
            if steps.get(_END) in final:
                return text
            for byte in (*_READABLE, *(b for b in steps if b < 256)):
                onto = steps.get(byte)
                if onto is not None and onto not in seen:
                    seen.add(onto)
                    onward.append((onto, text + bytes([byte])))
        border = onward
    return None
