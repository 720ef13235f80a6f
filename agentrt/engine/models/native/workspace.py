"""Activations of a forward: buffers allocated once and used by every layer of every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.ops.experts import ExpertRows

_CACHED_ROWS = 128
"""Views for up to this many rows are cached: decodes have the same few counts again."""


@dataclass(frozen=True, slots=True)
class ActivationRows:
    """Views for T rows; see `agentrt_kernels.contract`.

    Attributes:
        stream: `[T, hidden]`, the residual stream.
        normed: `[T, hidden]`.
        added: `[T, hidden]`, the next addition to the stream.
        qkv: `[T, (H + 2 * K) * D]`.
        heads: `[T, H + 2 * K, D]`, the same memory.
        query: `[T, H, D]`.
        mixed: `[T, H, D]`.
        gate_up: `[T, 2 * I]`.
        inner: `[T, I]`.
        experts: Rows of the experts, or None if they need none.
    """

    stream: Tensor
    normed: Tensor
    added: Tensor
    qkv: Tensor
    heads: Tensor
    query: Tensor
    mixed: Tensor
    gate_up: Tensor
    inner: Tensor
    experts: ExpertRows | None


class Workspace:
    """Buffers of the activations.

    Args:
        shape: Shape of the decoder.
        rows: Most rows of a forward.
        dtype: Type of the activations.
        device: Device of the buffers.
        for_experts: Whether the experts compute in buffers.
    """

    def __init__(
        self,
        shape: DecoderShape,
        rows: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        for_experts: bool,
    ) -> None:
        self._shape = shape
        self._max_rows = rows
        self._dtype = dtype
        self._device = device
        packed = shape.query_width + 2 * shape.kv_width
        experts = shape.experts
        inner = max(shape.inner, experts.shared_inner if experts else 0)
        expert_inner = experts.inner if experts else 0
        self._chosen = experts.experts_per_token if experts and for_experts else 0
        self._widths = (
            *(shape.hidden, shape.hidden, shape.hidden),
            *(packed, shape.query_width, shape.query_width),
            *(2 * inner, inner),
        )
        self._expert_widths = (shape.hidden, 2 * expert_inner, expert_inner)
        self._flat = [self._buffer(rows * width) for width in self._widths]
        rows *= self._chosen
        self._expert_flat = [self._buffer(rows * width) for width in self._expert_widths]
        self._cached: dict[int, ActivationRows] = {}

    def rows(self, count: int) -> ActivationRows:
        """Views for `count` rows, always of the same memory."""
        found = self._cached.get(count)
        if found is None:
            found = self._views(count)
            if count <= _CACHED_ROWS:
                self._cached[count] = found
        return found

    def _views(self, count: int) -> ActivationRows:
        shape = self._shape
        assert count <= self._max_rows, f"{count} rows in a workspace for {self._max_rows}"
        stream, normed, added, qkv, query, mixed, gate_up, inner = (
            flat[: count * width].view(count, width)
            for flat, width in zip(self._flat, self._widths, strict=True)
        )
        return ActivationRows(
            stream=stream,
            normed=normed,
            added=added,
            qkv=qkv,
            heads=qkv.view(count, shape.heads + 2 * shape.kv_heads, shape.head_dim),
            query=query.view(count, shape.heads, shape.head_dim),
            mixed=mixed.view(count, shape.heads, shape.head_dim),
            gate_up=gate_up,
            inner=inner,
            experts=self._expert_views(count * self._chosen) if self._chosen else None,
        )

    def _expert_views(self, count: int) -> ExpertRows:
        return ExpertRows(
            *(
                flat[: count * width].view(count, width)
                for flat, width in zip(self._expert_flat, self._expert_widths, strict=True)
            )
        )

    def _buffer(self, values: int) -> Tensor:
        return torch.empty(values, dtype=self._dtype, device=self._device)
