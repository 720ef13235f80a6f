"""Lines that fit a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.text_columns import folded, wrapped

PARTS = st.lists(st.text("abc 1", min_size=1, max_size=12).map(str.strip).filter(bool), min_size=1)


@given(PARTS, st.sampled_from([" | ", " + "]), st.integers(min_value=1, max_value=60))
def test_lines_fit_and_nothing_is_lost(parts: list[str], between: str, width: int) -> None:
    """Only a part that is longer by itself stands out."""
    line = between.join(parts)
    lines = folded(line, width).split("\n")
    assert lines[0] + "".join(one.removeprefix(" ") for one in lines[1:]) == line
    longest = max(map(len, parts)) + len("  | ")
    assert all(len(one) <= max(width, longest) for one in lines)


@given(PARTS, st.integers(min_value=8, max_value=60), st.integers(min_value=0, max_value=4))
def test_wrapped_lines_fit_and_have_every_word(parts: list[str], width: int, indent: int) -> None:
    line = " ".join(parts)
    lines = wrapped(line, width, indent)
    assert " ".join(lines).split() == line.split()
    longest = max(map(len, line.split()))
    assert all(len(one) <= max(width, indent + longest) for one in lines)
    assert wrapped(line, 0, indent) == [line]
