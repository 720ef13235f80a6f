"""FP8 by blocks, as DeepSeek and Qwen publish it: codes of eight bits with an exponent each.

A block of outputs and inputs shares a factor, `weight_scale_inv`.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
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
from agentrt_kernels.quantised_weight import E4M3

_KNOWN = (
    *("quant_method", "fmt", "activation_scheme", "weight_block_size"),
    *("scale_fmt", "expert_dtype"),
    *("modules_to_not_convert", "modules_to_convert", "ignored_layers"),  # the tensors tell
)
_NO_NUMBER = 127


class Fp8Blocks:
    """Matrices of FP8 by blocks.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """

    name = "FP8 blocks"
    has_steps = False
    has_floats = True
    parts = StoredParts(
        "weight_scale_inv", ("weight", "weight_scale_inv", "input_scale", "activation_scale")
    )

    def __init__(self, settings: FormatSettings) -> None:
        settings.check_known(*_KNOWN)
        settings.check_one_of("fmt", ["e4m3", "float8_e4m3fn"], "e4m3")
        settings.check_one_of("activation_scheme", ["dynamic", "static"], "dynamic")
        settings.check_one_of("scale_fmt", ["float", "ue8m0"], "float")
        settings.check_one_of("expert_dtype", ["fp8"], "fp8")
        self._block = block_of(settings, "weight_block_size")

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        return matrix.sizes.get("weight", ())

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        return fp8_weight(matrix, matrix.tensor("weight_scale_inv"), self._block)


def block_of(settings: FormatSettings, name: str) -> tuple[int, int]:
    """Outputs and inputs of a block.

    Raises:
        ModelInvalid: The setting is no such pair.
    """
    block = settings.get(name)
    if not isinstance(block, list) or len(block) != 2 or not all(map(_is_size, block)):
        raise settings.refused(name, "which is no size of a block")
    return (block[0], block[1])


def fp8_weight(matrix: StoredMatrix, scales: Tensor, block: tuple[int, int]) -> PackedWeight:
    """The packed weight of codes of FP8.

    Args:
        matrix: Tensors of the matrix; `weight` holds the codes `[N, W]`.
        scales: Factors of blocks.
        block: Outputs and inputs of a block; 0 takes all.

    Raises:
        ModelInvalid: The parts do not fit each other, or a code is no number.
    """
    codes = matrix.codes("weight", torch.float8_e4m3fn).view(torch.int8)
    rows, inputs = codes.shape
    high, wide = block[0] or max(1, rows), block[1] or max(1, inputs)
    blocks = (-(-rows // high), -(-inputs // wide))
    if tuple(scales.shape) != blocks:
        raise matrix.invalid(f"has factors of {tuple(scales.shape)} blocks, not {blocks}")
    if bool((codes & _NO_NUMBER == _NO_NUMBER).any()):
        raise matrix.invalid("holds values that are no numbers")
    each = scales.float().repeat_interleave(high, dim=0)[:rows]
    return PackedWeight(8, codes.contiguous(), each.contiguous(), None, wide, table=E4M3)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20
