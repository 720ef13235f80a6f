"""Text files in blocks: their ids, lines and pieces are those of the whole text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.prompt.codec import Codec
from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.text_file import file_blocks, file_ids, lines_of, pieces_of

parts = st.lists(st.lists(st.integers(0, 9), max_size=7), max_size=7)
quick = settings(max_examples=60, derandomize=True, deadline=None)


@pytest.mark.parametrize("position", [TextPosition.START, TextPosition.AFTER_MARKER])
def test_the_ids_of_blocks_are_those_of_the_whole(tmp_path: Path, position: TextPosition) -> None:
    texts = Codec.load(embedded.path()).parts.texts
    text = "The price of KO rose by 3 percent. 東京 naïve \U0001f600 " * 4000
    path = tmp_path / "text.txt"
    path.write_text(text, "utf-8")
    found = list(file_ids(texts, path, position, hint=""))
    assert len(found) > 2, "no part is the whole"
    assert tuple(one for ids in found for one in ids) == texts.encode(text, position)


@pytest.mark.parametrize("content", [None, b"\xff", b"fine \xe6\x9d"])
def test_what_cannot_be_read_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"text\.txt cannot be read") as caught:
        list(file_blocks(path, hint="Give text"))
    assert caught.value.hint == "Give text"
    assert "Errno" not in caught.value.message


@quick
@given(parts, st.integers(1, 5))
def test_pieces_are_consecutive_and_of_one_length(given: list[list[int]], length: int) -> None:
    found = list(pieces_of(given, length))
    assert [one for piece in found for one in piece] == [one for part in given for one in part]
    assert all(len(piece) == length for piece in found[:-1])
    assert all(found)


@quick
@given(st.lists(st.text("ab\n\r\x85", max_size=6), max_size=6))
def test_lines_end_at_line_feeds_alone(blocks: list[str]) -> None:
    whole = "".join(blocks).removesuffix("\n").split("\n")
    assert list(lines_of(blocks)) == (whole if "".join(blocks) else [])
