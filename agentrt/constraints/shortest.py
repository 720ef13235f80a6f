"""The shortest text that a regex matches, found over bytes by outlines-core."""

from __future__ import annotations

from outlines_core import Index, Vocabulary

from agentrt.constraints.regex_text import cost_of
from agentrt.constraints.table import END_MARKER

_END = 256
_UNUSED = 257
_MAX_STATES = 20_000
_MAX_WIDE_AFTER_LOOP = 8
_EASY = b"a1A0" + bytes(range(32, 127))
_READABLE = tuple(dict.fromkeys(_EASY))


def shortest_match(pattern: str) -> str | None:
    """The shortest text that the whole of `pattern` matches, readable where there is a choice.

    None when the pattern is too large to be searched, or matches nothing.
    """
    cost = cost_of(pattern)
    too_large = cost.states > _MAX_STATES or cost.wide_after_loop > _MAX_WIDE_AFTER_LOOP
    if END_MARKER in pattern or too_large:
        return None
    letters: dict[str | bytes, list[int]] = {bytes([b]): [b] for b in range(256)}
    letters[END_MARKER.encode()] = [_END]
    try:
        index = Index(f"(?:{pattern}){END_MARKER}", Vocabulary(_UNUSED, letters))
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
    border: list[tuple[int, bytes]] = [(index.get_initial_state(), b"")]
    seen = {border[0][0]}
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
