"""A text file as chunks of token ids, read and tokenized piece by piece.

Chunks are those of llama.cpp's `llama-perplexity`: consecutive, of equal length, each with the
begin token in place of its first if the model has one. A rest that fills no chunk is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.prompt import Codec
from agentrt.prompt.gguf_model_files import read_gguf_model_files
from agentrt.prompt.model_files import read_model_files
from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.text_file import file_ids, pieces_of


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
        begin: tuple[int, ...] = () if self.begin_id is None else (self.begin_id,)
        position = TextPosition.AFTER_MARKER if begin else TextPosition.START
        ids = file_ids(self.codec.parts.texts, text, position, hint="name a text in UTF-8")
        for chunk in pieces_of(chain([begin], ids), chunk_tokens):
            if len(chunk) == chunk_tokens:
                yield [*begin, *chunk[len(begin) :]]


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
