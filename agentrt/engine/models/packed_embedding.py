"""Embedding that stays quantised: the rows of a batch alone become numbers.

Letters of the shapes: T tokens, V vocabulary, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight


class PackedEmbedding:
    """A quantised embedding `[V, W]`.

    Args:
        weight: Codes, a row a token.
        dtype: Type of its rows.

    Attributes:
        dtype: Type of its rows.
        resident_bytes: Bytes that it takes.
        weight: The codes.
    """

    def __init__(self, weight: PackedWeight, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.resident_bytes = weight.resident_bytes
        self.weight = weight

    def rows(self, token_ids: Tensor) -> Tensor:
        """Rows `[T, W]` of token ids `[T]`."""
        return self.weight.rows(token_ids).dequantize().to(self.dtype)
