"""A text file as chunks of token ids, read and tokenized piece by piece.

Chunks are those of llama.cpp's `llama-perplexity`: consecutive, of equal length, each with the
begin token in place of its first if the model has one. A rest that fills no chunk is left out.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.prompt import Codec
from agentrt.prompt.gguf_model_files import read_gguf_model_files
from agentrt.prompt.model_files import read_model_files
from agentrt.prompt.text_encoder import TextEncoder, TextPosition

_READ_BYTES = 1 << 16
_MOST_PENDING = 1 << 17
"""Characters after which a text is cut where its tokenizer would not cut it."""


class ChunkTokenizer:
    """Cuts texts into a model's tokens.

    Args:
        path: Directory or GGUF file of the model.

    Attributes:
        codec: The model's codec.
        begin_id: Token that begins a text; None if the model has none.

    Raises:
        ModelInvalid: The model's tokenizer cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.codec = Codec.load(path)
        files = read_gguf_model_files(path) if is_gguf(path) else read_model_files(path)
        begin = files.special_texts.get("bos_token", "")
        self.begin_id = self.codec.vocab.special_ids.get(begin)

    def chunks(self, text: Path, chunk_tokens: int) -> Iterator[list[int]]:
        """The chunks of a file.

        Args:
            text: The file, in UTF-8.
            chunk_tokens: Tokens of a chunk.

        Raises:
            UsageError: The file cannot be read, or is not UTF-8.
        """
        waiting = [] if self.begin_id is None else [self.begin_id]
        position = TextPosition.START if self.begin_id is None else TextPosition.AFTER_MARKER
        for ids in _encoded(self.codec.parts.texts, text, position):
            waiting += ids
            whole = len(waiting) - len(waiting) % chunk_tokens
            for start in range(0, whole, chunk_tokens):
                chunk = waiting[start : start + chunk_tokens]
                yield chunk if self.begin_id is None else [self.begin_id, *chunk[1:]]
            del waiting[:whole]


def same_tokens(one: ChunkTokenizer, other: ChunkTokenizer) -> bool:
    """Whether each token id means the same to two models.

    A vocabulary may be longer by ids that are in no text: files differ in whether they list those.
    """
    first, second = one.codec.vocab, other.codec.vocab
    common = min(first.size, second.size)
    return (
        first.token_bytes[:common] == second.token_bytes[:common]
        and one.begin_id == other.begin_id
        and not any(first.token_bytes[common:])
        and not any(second.token_bytes[common:])
    )


def _encoded(texts: TextEncoder, path: Path, position: TextPosition) -> Iterator[tuple[int, ...]]:
    """The ids of a file, as far as the text behind a block cannot change them."""
    rest = ""
    for block in _blocks(path):
        ids, rest = texts.seal(rest + block, position)
        if not ids and len(rest) > _MOST_PENDING:
            ids, rest = texts.encode(rest, position), ""
        if ids:
            position = TextPosition.INSIDE
            yield ids
    yield texts.encode(rest, position)


def _blocks(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="name a text in UTF-8") from None
