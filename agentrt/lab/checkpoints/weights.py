"""The tensors of a shape under the names that checkpoints use, and their random values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record

FIRST_WORD_ID = 264
"""Ids below are bytes and special tokens; prompts are made of the words from here on."""
WORD_LETTERS = 3
"""Letters of a whole word; shorter words are there to merge it from."""
_MOST_LETTERS = 52

_EMBEDDING_DEVIATION = 0.02
"""Small beside the layers' contribution, so that outputs depend on the whole context."""


@record
class TensorSpec:
    """One tensor.

    Attributes:
        name: Name in the checkpoint.
        shape: Rows, columns.
        role: "norm" has ones, "bias" and "matrix" have random values. "embedding" has random values
            from the first whole word on and zeros below, so that no arm ends an output early and
            outputs are words of one length, which are read back as the same tokens.
    """

    name: str
    shape: tuple[int, ...]
    role: str


def letters_of(vocabulary: int) -> int:
    """Letters of the alphabet that a vocabulary needs for its words, or all if they are too few."""
    words = vocabulary - FIRST_WORD_ID
    enough = (n for n in range(1, _MOST_LETTERS) if _words_of(n, WORD_LETTERS) >= words)
    return next(enough, _MOST_LETTERS)


def first_whole_word_id(vocabulary: int) -> int:
    """The first id of a word with all its letters."""
    return FIRST_WORD_ID + _words_of(letters_of(vocabulary), WORD_LETTERS - 1)


def _words_of(letters: int, length: int) -> int:
    """Number of words of at most that length."""
    return sum(letters**one for one in range(1, length + 1))


def weights_of(shape: ModelShape) -> Iterator[TensorSpec]:
    """All tensors of a checkpoint, in the order of its layers."""
    query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    projections = {"q": query, "k": pair, "v": pair}
    yield TensorSpec("model.embed_tokens.weight", (shape.vocabulary, shape.hidden), "embedding")
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        yield TensorSpec(f"{at}input_layernorm.weight", (shape.hidden,), "norm")
        for part, rows in projections.items():
            yield TensorSpec(f"{at}self_attn.{part}_proj.weight", (rows, shape.hidden), "matrix")
        for part, rows in projections.items() if shape.biases else ():
            yield TensorSpec(f"{at}self_attn.{part}_proj.bias", (rows,), "bias")
        yield TensorSpec(f"{at}self_attn.o_proj.weight", (shape.hidden, query), "matrix")
        yield TensorSpec(f"{at}post_attention_layernorm.weight", (shape.hidden,), "norm")
        yield from _gated(shape, at)
    yield TensorSpec("model.norm.weight", (shape.hidden,), "norm")
    if not shape.tied:
        yield TensorSpec("lm_head.weight", (shape.vocabulary, shape.hidden), "embedding")


def _gated(shape: ModelShape, at: str) -> Iterator[TensorSpec]:
    wide, narrow = (shape.inner, shape.hidden), (shape.hidden, shape.inner)
    if shape.experts == 1:
        yield TensorSpec(f"{at}mlp.gate_proj.weight", wide, "matrix")
        yield TensorSpec(f"{at}mlp.up_proj.weight", wide, "matrix")
        yield TensorSpec(f"{at}mlp.down_proj.weight", narrow, "matrix")
        return
    moe = f"{at}block_sparse_moe."
    yield TensorSpec(f"{moe}gate.weight", (shape.experts, shape.hidden), "matrix")
    for expert in range(shape.experts):
        for part, size in (("w1", wide), ("w3", wide), ("w2", narrow)):
            yield TensorSpec(f"{moe}experts.{expert}.{part}.weight", size, "matrix")


def random_values(spec: TensorSpec, seed: int, index: int) -> npt.NDArray[np.float32]:
    """Values of one tensor; they depend only on the seed and its place in the checkpoint."""
    if spec.role == "norm":
        return np.ones(spec.shape, np.float32)
    generator = np.random.Generator(np.random.SFC64([seed, index]))
    values = generator.standard_normal(spec.shape, np.float32)
    if spec.role == "embedding":
        values *= _EMBEDDING_DEVIATION
        values[: first_whole_word_id(spec.shape[0])] = 0.0
    else:
        values *= spec.shape[-1] ** -0.5  # outputs are as large as inputs
    return values


def bf16_bytes(values: npt.NDArray[np.float32]) -> bytes:
    """Little-endian bfloat16, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16).tobytes()
