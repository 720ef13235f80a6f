"""Lower bounds of a forward: the bytes that it reads and the operations that it computes.

The bytes are those of an engine that reads every weight once a step, every key and value once a
sequence, and those of a shared prefix once for all sequences. No engine needs less: a rate above
the roofline is an error in this arithmetic.
"""

from __future__ import annotations

from agentrt.analysis.cost_model import ModelWork
from agentrt.analysis.model_shape import DTYPE_BYTES, ModelShape
from agentrt.base.record import record

QUANTISED_BYTES = {"int8": 1.0, "int4": 9 / 16}
"""Bytes of a quantised weight: of four bits with a scale for 32."""


@record
class DecodeWork:
    """Work of one decode step: one token for each sequence of a batch.

    Attributes:
        weight_bytes: Bytes of all matrices that the batch uses.
        kv_bytes: Bytes of keys and values.
        flops: Multiplications and additions.
    """

    weight_bytes: float
    kv_bytes: float
    flops: float

    @property
    def bytes(self) -> float:
        """Bytes of weights, keys and values."""
        return self.weight_bytes + self.kv_bytes

    def roofline_s(self, *, read_bytes_s: float, flops_s: float) -> float:
        """Minimum seconds of the step on a machine with these rates."""
        return max(self.bytes / read_bytes_s, self.flops / flops_s)


def decode_work(
    shape: ModelShape,
    dtype: str,
    *,
    batch: int,
    history_tokens: float,
    shared_tokens: int = 0,
    weights: str = "checkpoint",
    kv_cache_dtype: str = "auto",
) -> DecodeWork:
    """Work of one decode step.

    Args:
        shape: Sizes of the model.
        dtype: Name of the dtype in which the model computes.
        batch: Sequences.
        history_tokens: Context of each sequence, shared part included.
        shared_tokens: Length of the prefix that all sequences share.
        weights: Format of the matrices: "checkpoint" for the dtype, or "int8" or "int4", whose head
            has eight bits.
        kv_cache_dtype: Type of cached keys and values: "auto" for the dtype, "int8" or "fp8".
    """
    layer = shape.attention_parameters + used_experts(shape, batch) * shape.expert_parameters
    layer += shape.experts * shape.router_parameters
    layers = shape.layers * layer
    value_bytes = QUANTISED_BYTES.get(weights, DTYPE_BYTES[dtype])
    head_bytes = QUANTISED_BYTES["int8"] if weights in QUANTISED_BYTES else DTYPE_BYTES[dtype]
    own_tokens = batch * (history_tokens - shared_tokens)
    tokens_read = own_tokens + (shared_tokens if batch else 0)
    return DecodeWork(
        weight_bytes=layers * value_bytes + shape.head_parameters * head_bytes,
        kv_bytes=tokens_read * shape.kv_bytes_a_token(dtype, kv_cache_dtype),
        flops=batch * flops_a_token(shape, history_tokens) + batch * 2 * shape.head_parameters,
    )


def prefill_flops(shape: ModelShape, prompt_tokens: int, cached_tokens: int = 0) -> float:
    """Operations for a prompt after a cached prefix; only its last row has logits."""
    new_tokens = prompt_tokens - cached_tokens
    mean_history = cached_tokens + (new_tokens + 1) / 2
    return new_tokens * flops_a_token(shape, mean_history) + 2 * shape.head_parameters


def flops_a_token(shape: ModelShape, history_tokens: float) -> float:
    """Operations of the layers for one token that attends to a history."""
    layer = shape.attention_parameters + shape.experts_a_token * shape.expert_parameters
    layer += shape.experts * shape.router_parameters
    attention = 2 * shape.heads * shape.head_dim * history_tokens
    return 2.0 * shape.layers * (layer + attention)


def used_experts(shape: ModelShape, batch: int) -> float:
    """Expected number of experts that a batch uses if all are equally likely."""
    if shape.experts == 1:
        return 1.0
    unused = (1 - shape.experts_a_token / shape.experts) ** batch
    return shape.experts * (1 - unused)


def model_work(
    shape: ModelShape, dtype: str, weights: str = "checkpoint", kv_cache_dtype: str = "auto"
) -> ModelWork:
    """Work of a decoder, in the terms of the cost model.

    Args:
        shape: Sizes of the model.
        dtype: Name of the dtype in which the model computes.
        weights: Format of the matrices, as for `decode_work`.
        kv_cache_dtype: Type of cached keys and values, likewise.
    """
    flat = flops_a_token(shape, 0)
    step = decode_work(shape, dtype, batch=1, history_tokens=0, weights=weights)
    return ModelWork(
        weight_bytes=step.weight_bytes,
        flops_a_token=flat,
        flops_a_history_token=flops_a_token(shape, 1) - flat,
        head_flops=2.0 * shape.head_parameters,
        kv_bytes_a_token=shape.kv_bytes_a_token(dtype, kv_cache_dtype),
    )
