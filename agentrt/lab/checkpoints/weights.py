"""The tensors of a shape under the names that checkpoints use, and random values for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentrt.analysis.model_shape import ModelShape

EOS_ID = 257
FIRST_WORD_ID = 264
"""Below stand bytes and special tokens; prompts are made of what stands above."""
WORD_LETTERS = 3
"""Of a whole word; shorter ones are there to merge it from."""
_MOST_LETTERS = 52

_EMBEDDING_DEVIATION = 0.02
"""Small beside what the layers add, so that outputs depend on the whole context."""


@dataclass(frozen=True, slots=True)
class WeightFact:
    """One tensor.

    Attributes:
        name: In the checkpoint.
        shape: Rows, columns.
        role: "norm" holds ones, "bias" and "matrix" random values, "embedding" too, but for the
            rows below the first whole word: they are zero, so that no arm ends an output before its
            time, and outputs are words of one length, which are read back as the same tokens.
    """

    name: str
    shape: tuple[int, ...]
    role: str


def letters_of(vocabulary: int) -> int:
    """How many letters of the alphabet the words of a vocabulary take: as few as do, if any do."""
    words = vocabulary - FIRST_WORD_ID
    enough = (n for n in range(1, _MOST_LETTERS) if _words_of(n, WORD_LETTERS) >= words)
    return next(enough, _MOST_LETTERS)


def first_whole_word_id(vocabulary: int) -> int:
    """From here on words have all their letters."""
    return FIRST_WORD_ID + _words_of(letters_of(vocabulary), WORD_LETTERS - 1)


def _words_of(letters: int, length: int) -> int:
    """Words of at most that length."""
    return sum(letters**one for one in range(1, length + 1))


def weights_of(shape: ModelShape) -> Iterator[WeightFact]:
    """All tensors of a checkpoint, in the order of its layers."""
    query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield WeightFact("model.embed_tokens.weight", (shape.vocabulary, shape.hidden), "embedding")
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        yield WeightFact(f"{at}input_layernorm.weight", (shape.hidden,), "norm")
        yield WeightFact(f"{at}self_attn.q_proj.weight", (query, shape.hidden), "matrix")
        yield WeightFact(f"{at}self_attn.k_proj.weight", (pair, shape.hidden), "matrix")
        yield WeightFact(f"{at}self_attn.v_proj.weight", (pair, shape.hidden), "matrix")
        if shape.biases:
            yield WeightFact(f"{at}self_attn.q_proj.bias", (query,), "bias")
            yield WeightFact(f"{at}self_attn.k_proj.bias", (pair,), "bias")
            yield WeightFact(f"{at}self_attn.v_proj.bias", (pair,), "bias")
        yield WeightFact(f"{at}self_attn.o_proj.weight", (shape.hidden, query), "matrix")
        yield WeightFact(f"{at}post_attention_layernorm.weight", (shape.hidden,), "norm")
        yield from _gated(shape, at)
    yield WeightFact("model.norm.weight", (shape.hidden,), "norm")
    if not shape.tied:
        yield WeightFact("lm_head.weight", (shape.vocabulary, shape.hidden), "embedding")


def _gated(shape: ModelShape, at: str) -> Iterator[WeightFact]:
    wide, narrow = (shape.inner, shape.hidden), (shape.hidden, shape.inner)
    if shape.experts == 1:
        yield WeightFact(f"{at}mlp.gate_proj.weight", wide, "matrix")
        yield WeightFact(f"{at}mlp.up_proj.weight", wide, "matrix")
        yield WeightFact(f"{at}mlp.down_proj.weight", narrow, "matrix")
        return
    moe = f"{at}block_sparse_moe."
    yield WeightFact(f"{moe}gate.weight", (shape.experts, shape.hidden), "matrix")
    for expert in range(shape.experts):
        yield WeightFact(f"{moe}experts.{expert}.w1.weight", wide, "matrix")
        yield WeightFact(f"{moe}experts.{expert}.w3.weight", wide, "matrix")
        yield WeightFact(f"{moe}experts.{expert}.w2.weight", narrow, "matrix")


def random_values(fact: WeightFact, seed: int, index: int) -> npt.NDArray[np.float32]:
    """Values of one tensor; they depend on the seed and its place in the checkpoint only."""
    if fact.role == "norm":
        return np.ones(fact.shape, np.float32)
    generator = np.random.Generator(np.random.SFC64([seed, index]))
    values = generator.standard_normal(fact.shape, np.float32)
    if fact.role == "embedding":
        values *= _EMBEDDING_DEVIATION
        values[: first_whole_word_id(fact.shape[0])] = 0.0
    else:
        values *= fact.shape[-1] ** -0.5  # what comes out is as large as what went in
    return values


def bf16_bytes(values: npt.NDArray[np.float32]) -> bytes:
    """Little-endian bfloat16, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16).tobytes()
