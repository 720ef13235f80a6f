"""The AWQ format of AutoAWQ in its `gemm` version.

Codes lie input by output, in words of 32 bits along the outputs. The eight outputs of a word are
not in a row: those of even index come first.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.codes import (
    codes_of_words,
    in_blocks,
    packed_weight,
)
from agentrt.engine.models.published.gptq import OF_THE_MAKING
from agentrt.engine.models.published.stored_format import (
    FormatSettings,
    Size,
    StoredMatrix,
    StoredParts,
)
from agentrt_kernels.cpu.nibbles import pack_nibbles

_READ = ("quant_method", "bits", "w_bit", "group_size", "q_group_size", "zero_point", "version")
_OF_RUNNING = ("modules_to_not_convert", "do_fuse", "fuse_max_seq_len", "modules_to_fuse")
_OF_GPTQ = ("sym", "desc_act", "true_sequential")
"""Written by transformers for both formats, and meant for the other one."""
_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in its word of each of eight outputs in a row."""


class Awq:
    """Matrices of AWQ.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """

    name = "AWQ int4"
    has_steps = True
    has_floats = False
    parts = StoredParts("qweight", ("qweight", "qzeros", "scales"))

    def __init__(self, settings: FormatSettings) -> None:
        settings.check_known(*_READ, *_OF_RUNNING, *_OF_GPTQ, *OF_THE_MAKING, "format")
        settings.check_one_of("w_bit" if settings.get("w_bit") else "bits", [4])
        name = "q_group_size" if settings.get("q_group_size") else "group_size"
        self._group = settings.integer(name, -1)
        if self._group == 0:
            raise settings.refused(name, "which is no such number")
        settings.check_one_of("zero_point", [True], True)
        for name in ("version", "format"):
            settings.check_one_of(name, ["gemm", "GEMM"], "gemm")

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        stored = matrix.sizes["qweight"]
        if len(stored) != 2:
            raise matrix.invalid(f"has qweight {stored}")
        return (stored[1] * 8, stored[0])

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        rows, inputs = self.size(matrix)
        group = inputs if self._group == -1 else self._group
        groups = (-(-inputs // group), rows)
        words, zero_words = (matrix.codes(part, torch.int32) for part in ("qweight", "qzeros"))
        scales, zeros = matrix.tensor("scales"), _codes_in_order(zero_words)
        for part, size in (("scales", scales), ("qzeros", zeros)):
            if tuple(size.shape) != groups:
                raise matrix.invalid(f"has {part} {tuple(matrix.sizes[part])}")
        if inputs % 2:
            raise matrix.invalid(f"has {inputs} inputs, which do not lie in pairs")

        def block(some: slice) -> Tensor:  # of words, each of which is eight outputs
            return pack_nibbles(_codes_in_order(words[:, some]).t())

        values = in_blocks(words.shape[1], inputs * 8, block)
        return packed_weight(values, 4, scales.t(), zeros.t(), None, group)


def _codes_in_order(words: Tensor) -> Tensor:
    """Codes of words `[rows, N / 8]` in the order of the outputs, uint8 `[rows, N]`."""
    codes = codes_of_words(words, 4).view(words.shape[0], -1, 8)
    return codes[..., _PLACES].flatten(1)
