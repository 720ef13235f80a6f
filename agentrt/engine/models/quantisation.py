"""Quantisation at load: which matrices of a decoder become codes, and how they are rounded.

Values are rounded to the nearest step, group by group. Embedding, norms, biases and routers stay
as they are. The head is apart: its errors are those of the logits themselves, so that it takes
eight bits unless the settings say otherwise.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.rounding import GroupRounding, round_groups

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
"""Names of the first and the last matrix of a decoder."""

_PLAIN_ENDS = (".gate.weight", ".router.weight", "shared_expert_gate.weight")
"""Ends of the names of routers, and of the weight of a shared expert."""

_BITS: dict[str, Literal[4, 8]] = {"int8": 8, "int4": 4}
_INT4_GROUP = 32
_PROBED_ENDS = (8.0, 7.0, 7.5, 8.5, 9.0)
"""Steps from zero at which a group's largest value may lie with four bits. There are eight: beyond
them that value is cut off, and all others are rounded more finely.
"""
_SCALE_BYTES, _FACTOR_BYTES = 2, 4  # of a group, and of an output


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Formats of a decoder's matrices.

    Attributes:
        bits: Bits of the matrices of layers.
        group: Their inputs that share a scale; 0 is a whole row.
        head_bits: Bits of the head; None leaves it as it is.
    """

    bits: Literal[4, 8]
    group: int
    head_bits: Literal[4, 8] | None

    def take(self, name: str, weight: Tensor) -> Tensor | PackedWeight:
        """The weight of this name, quantised if it is to be.

        Of stacked experts `[E, W, N]` come all their outputs, `[E * N, W]`.
        """
        bits = self.bits_of(name, tuple(weight.shape))
        if bits is None:
            return weight
        rows = weight if weight.dim() == 2 else weight.transpose(1, 2).flatten(0, 1)
        return quantised(rows, bits, self.group_of(bits))

    def bits_of(self, name: str, size: tuple[int, ...]) -> Literal[4, 8] | None:
        """Bits of the weight of this name and size, or None."""
        if name == EMBEDDING or name.endswith(_PLAIN_ENDS):
            return None
        if not (_is_stacked(name, size) or (len(size) == 2 and name.endswith(".weight"))):
            return None
        bits = self.head_bits if name == HEAD else self.bits
        return 8 if bits == 4 and _inputs(size) % 2 else bits

    def group_of(self, bits: Literal[4, 8]) -> int:
        """Inputs that share a scale in a matrix of so many bits; 0 is a whole row."""
        return self.group or (_INT4_GROUP if bits == 4 else 0)

    def bytes_of(self, name: str, size: tuple[int, ...]) -> int | None:
        """Bytes that the weight of this name and size takes as kernels keep it, or None."""
        bits = self.bits_of(name, size)
        if bits is None:
            return None
        inputs = _inputs(size)
        rows = math.prod(size) // inputs
        groups = -(-inputs // (self.group_of(bits) or inputs))
        return rows * (inputs * bits // 8 + groups * _SCALE_BYTES + _FACTOR_BYTES)

    def __str__(self) -> str:
        group = self.group_of(self.bits)
        scales = f"a scale for {group} inputs" if group else "a scale an output"
        head = f"int{self.head_bits}" if self.head_bits else "as it is"
        return f"quantised at load, {scales}, head {head}"


def _is_stacked(name: str, size: tuple[int, ...]) -> bool:
    """Whether it is the projection of all experts of a layer."""
    return len(size) == 3 and name.endswith("_proj")


def _inputs(size: tuple[int, ...]) -> int:
    """W of a matrix `[N, W]` or of stacked ones `[E, W, N]`."""
    return size[1]


def quantisation_of(config: EngineConfig) -> Quantisation | None:
    """The quantisation of an engine of this config; None leaves weights as they are."""
    if config.weights == "checkpoint":
        return None
    head = "int8" if config.head_weights == "auto" else config.head_weights
    return Quantisation(_BITS[config.weights], config.weight_group, _BITS.get(head))


def quantised(weight: Tensor, bits: Literal[4, 8], group: int) -> PackedWeight:
    """Round a matrix to codes.

    Args:
        weight: `[N, W]`; for 4 bits W is even. It is rounded beside the CPU.
        bits: 8, symmetric to 127; or 4, whose scale of each group is the best of several.
        group: Inputs that share a scale; 0 is a whole row.
    """
    size = group or weight.shape[1]
    values, scales = round_groups(weight.cpu(), GroupRounding(bits, size, _PROBED_ENDS))
    return PackedWeight(bits, values, scales, None, size)
