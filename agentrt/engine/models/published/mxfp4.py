"""MXFP4, as OpenAI publishes gpt-oss: experts in codes of four bits, with a power of two for 32.

A code is a float of one bit of sign, two of exponent and one of mantissa (E2M1), the first of a
byte in its lower half. The projections of all experts of a layer are one tensor.

Letters of the shapes: E experts, N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.stored_format import (
    FormatSettings,
    Size,
    StoredMatrix,
    StoredParts,
)
from agentrt_kernels.quantised_weight import E2M1

_GROUP = 32
_BYTES = _GROUP // 2
_EXPONENT_BIAS = 127
_NO_NUMBER = 255


class Mxfp4:
    """Stacked experts in MXFP4.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known.
    """

    name = "MXFP4"
    has_steps = False
    has_floats = False
    parts = StoredParts("blocks", ("blocks", "scales"), separator="_", ending="")

    def __init__(self, settings: FormatSettings) -> None:
        settings.check_known("quant_method", "modules_to_not_convert")  # the tensors tell

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        blocks = matrix.sizes["blocks"]
        if len(blocks) != 4 or blocks[3] != _BYTES:
            raise matrix.invalid(f"has blocks {blocks}, not of {_BYTES} bytes each")
        experts, outputs, groups, _ = blocks
        return (experts, groups * _GROUP, outputs)

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        experts, inputs, outputs = self.size(matrix)
        blocks, exponents = matrix.tensor("blocks"), matrix.tensor("scales")
        groups = (experts, outputs, inputs // _GROUP)
        if tuple(exponents.shape) != groups:
            raise matrix.invalid(f"has scales {tuple(exponents.shape)}, not {groups}")
        if blocks.dtype is not torch.uint8 or exponents.dtype is not torch.uint8:
            raise matrix.invalid(f"is in {blocks.dtype}, with scales in {exponents.dtype}")
        if bool((exponents == _NO_NUMBER).any()):
            raise matrix.invalid("has scales that are no numbers")
        rows = experts * outputs
        values = blocks.reshape(rows, inputs // 2)
        return PackedWeight(4, values, _powers(exponents.view(rows, -1)), None, _GROUP, table=E2M1)


def _powers(exponents: Tensor) -> Tensor:
    """The powers of two of stored exponents, in fp16 if it holds all of them exactly."""
    powers = torch.exp2(exponents.float() - _EXPONENT_BIAS)
    half = powers.to(torch.float16)
    return half if torch.equal(half.float(), powers) else powers
