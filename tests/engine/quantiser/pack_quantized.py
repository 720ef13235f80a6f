"""A reader of `pack-quantized` tensors, written from the specification of compressed-tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def unpacked(tensors: Mapping[str, Tensor], module: str, bits: int) -> Tensor:
    """The matrix of a module in fp32."""
    words = tensors[f"{module}.weight_packed"].numpy().astype("int64") & 0xFFFFFFFF
    rows, inputs = tensors[f"{module}.weight_shape"].tolist()
    each = 32 // bits
    codes = torch.zeros(rows, inputs)
    for column in range(inputs):
        word = words[:, column // each]
        code = word >> (column % each * bits) & ((1 << bits) - 1)
        codes[:, column] = torch.from_numpy(code - (1 << (bits - 1))).float()
    scale = tensors[f"{module}.weight_scale"].float()
    return codes * scale.repeat_interleave(inputs // scale.shape[1], 1)
