"""Chunks of a text: read in blocks, they are those of the whole."""

from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.lab.evaluation.text_chunks import ChunkTokenizer, same_tokens
from agentrt.prompt.text_encoder import TextPosition
from tests.syntax import ROOT


@pytest.fixture(scope="module")
def tokenizer() -> ChunkTokenizer:
    return ChunkTokenizer(embedded.path())


def test_blocks_give_the_tokens_of_the_whole(tokenizer: ChunkTokenizer, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "programs.md").read_text("utf-8")
    text = (page + "東京 naïve \U0001f600 ") * 20  # several blocks, some end inside a character
    path = tmp_path / "text.txt"
    path.write_text(text, "utf-8")
    assert path.stat().st_size > 2 << 16
    texts = tokenizer.codec.parts.texts
    whole = [tokenizer.begin_id, *texts.encode(text, TextPosition.AFTER_MARKER)]
    chunks = list(tokenizer.chunks(path, 100))
    assert len(chunks) == len(whole) // 100
    for number, chunk in enumerate(chunks):
        assert chunk == [tokenizer.begin_id, *whole[100 * number + 1 : 100 * number + 100]]


def test_a_text_that_is_one_piece_is_cut(tokenizer: ChunkTokenizer, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(" " * (3 << 16), "utf-8")  # no boundary is certain before its end
    chunks = list(tokenizer.chunks(path, 1000))
    ids = [one for chunk in chunks for one in chunk if one != tokenizer.begin_id]
    assert len(b"".join(tokenizer.codec.vocab.token_bytes[one] for one in ids)) > 1 << 17


@pytest.mark.parametrize("content", [b"\xff", b"fine \xe6\x9d"])
def test_what_is_not_utf8_is_refused(
    tokenizer: ChunkTokenizer, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        list(tokenizer.chunks(path, 16))


def test_a_model_has_its_own_tokens(tokenizer: ChunkTokenizer) -> None:
    assert same_tokens(tokenizer, ChunkTokenizer(embedded.path()))
