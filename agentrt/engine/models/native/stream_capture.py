"""The residual stream of a decoder, captured before some of its layers in every forward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class StreamCapture:
    """Memory for the stream of a forward's rows.

    Args:
        layers: Layers before which it is captured, by index from 0 on; ascending or equal.
        rows: Most rows of a forward.
        hidden: Width of the stream.

    Attributes:
        layers: The layers.
        rows: `[rows, layers, hidden]` fp32; the first T rows are those of the last forward.

    Example:
        >>> capture = StreamCapture((1, 2), rows=4, hidden=3)
        >>> capture.keep(2, torch.ones(1, 3), scale=2.0)
        >>> capture.rows[0].tolist()
        [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """

    def __init__(self, layers: Sequence[int], rows: int, hidden: int) -> None:
        self.layers = tuple(layers)
        self.rows = torch.zeros((rows, len(self.layers), hidden))

    def keep(self, layer: int, stream: Tensor, scale: float) -> None:
        """Keep the stream `[T, hidden]` before a layer, times a factor, if it is wanted."""
        for at, wanted in enumerate(self.layers):
            if wanted == layer:
                self.rows[: stream.shape[0], at].copy_(stream).mul_(scale)
