"""What a forward has to read and compute, at the least, and the rates that follow.

The bytes are those of an engine that reads every weight once a step, every key and value once a
sequence and those of a shared prefix once for all. None can do with less, so that an achieved rate
above the ceiling would be a mistake in here.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.lab.bench.shapes import DTYPE_BYTES, ModelShape


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Of one decode step, a token for each of a batch.

    Attributes:
        weight_bytes: Of all matrices that the batch uses.
        kv_bytes: Of keys and values.
        flops: Multiplications and additions.
    """

    weight_bytes: float
    kv_bytes: float
    flops: float

    @property
    def bytes(self) -> float:
        """All that is read."""
        return self.weight_bytes + self.kv_bytes

    def floor_s(self, *, read_bytes_s: float, flops_s: float) -> float:
        """The least time of such a step on a machine of these rates."""
        return max(self.bytes / read_bytes_s, self.flops / flops_s)


def decode_work(
    shape: ModelShape, dtype: str, *, batch: int, history_tokens: float, shared_tokens: int = 0
) -> DecodeWork:
    """Of a step of `batch` sequences.

    Args:
        shape: Of the model.
        dtype: That it computes in.
        batch: Sequences.
        history_tokens: Context of each, the shared part among it.
        shared_tokens: First tokens that all have in common.
    """
    used = used_experts(shape, batch)
    layer = shape.attention_parameters + used * shape.expert_parameters
    layer += shape.experts * shape.router
    weights = shape.layers * layer + shape.head_parameters
    own = batch * (history_tokens - shared_tokens)
    tokens_read = own + (shared_tokens if batch else 0)
    return DecodeWork(
        weight_bytes=weights * DTYPE_BYTES[dtype],
        kv_bytes=tokens_read * shape.kv_bytes_a_token(dtype),
        flops=batch * flops_a_token(shape, history_tokens) + batch * 2 * shape.head_parameters,
    )


def prefill_flops(shape: ModelShape, prompt_tokens: int, cached_tokens: int = 0) -> float:
    """Of computing a prompt whose first tokens are known; its last row alone has logits."""
    fresh = prompt_tokens - cached_tokens
    mean_history = cached_tokens + (fresh + 1) / 2
    return fresh * flops_a_token(shape, mean_history) + 2 * shape.head_parameters


def flops_a_token(shape: ModelShape, history_tokens: float) -> float:
    """Of the layers, for one token that attends to a history."""
    layer = shape.attention_parameters + shape.experts_a_token * shape.expert_parameters
    layer += shape.experts * shape.router
    attention = 2 * shape.heads * shape.head_dim * history_tokens
    return 2.0 * shape.layers * (layer + attention)


def used_experts(shape: ModelShape, batch: int) -> float:
    """How many different experts a batch is expected to use, chosen evenly."""
    if shape.experts == 1:
        return 1.0
    unused = (1 - shape.experts_a_token / shape.experts) ** batch
    return shape.experts * (1 - unused)
