"""All layers of a dense decoder in one native call: token ids in, logits out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import addressof
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentrt_kernels.contract import SILU, Activation, PagedRows, Score
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import KINDS, After, NativeLinear, pack
from agentrt_kernels.cpu.lora import PackedAdapters
from agentrt_kernels.cpu.operands import norm_stride, set_activation, set_pages, set_rows
from agentrt_kernels.cpu.quantised import QuantisedLinear, pack_codes
from agentrt_kernels.lora import LINEARS, LayerLowRank
from agentrt_kernels.quantised_weight import QuantisedWeight


@dataclass(frozen=True, slots=True)
class StackShape:
    """Sizes and scales that all layers have in common.

    Attributes:
        layers: Number of layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        inner: Width of the gated layer.
        epsilon: Added to the mean square in every norm.
        activation: How gates open.
        centered: Whether norms subtract the mean first.
        parallel: Whether the gated layer takes what attention takes.
        embedding_scale: Factor of the embedding.
        residual_scale: Factor of each sum that a layer adds to the stream.
        logits_scale: Factor of the logits.
        logits_softcap: Bound of a logit, by `softcap * tanh(logit / softcap)`, or None.
    """

    layers: int
    hidden: int
    heads: int
    inner: int
    epsilon: float
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_scale: float = 1.0
    logits_softcap: float | None = None
    activation: Activation = SILU
    centered: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """A linear before it is packed, or one that is packed already.

    Attributes:
        weight: `[out, in]`, plain or quantised; or packed, its bias included.
        bias: `[out]` or None, of the rows' dtype.
    """

    weight: Tensor | QuantisedWeight | NativeLinear
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class StackLayer:
    """One layer, its plain matrices of one dtype.

    Attributes:
        norm: `[hidden]` before attention, or None for the stream as it is.
        out_norm: `[hidden]` of what attention adds to the stream, or None.
        qkv: Queries, keys and values, `[(H + 2 * K) * D, hidden]`.
        query_norm: `[D]`, `[H, D]` or None; centered like the other norms.
        key_norm: `[D]`, `[K, D]` or None.
        out: `[hidden, H * D]`.
        inner_norm: `[hidden]` before the gated layer, or None.
        inner_out_norm: `[hidden]` of what the gated layer adds, or None.
        gate_up: `[2 * inner, hidden]`, gate first.
        down: `[hidden, inner]`.
        score: How the layer scores.
    """

    norm: Tensor | None
    out_norm: Tensor | None
    qkv: Matrix
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Matrix
    inner_norm: Tensor | None
    inner_out_norm: Tensor | None
    gate_up: Matrix
    down: Matrix
    score: Score


class EmbeddingRows(Protocol):
    """An embedding whose rows are made when they are needed.

    Attributes:
        dtype: Type of its rows, fp32 or bf16.
    """

    dtype: torch.dtype

    def rows(self, token_ids: Tensor) -> Tensor:
        """Rows `[T, hidden]`, dense, of token ids `[T]`."""
        ...


class Stack:
    """A dense decoder.

    Args:
        library: The native code.
        shape: Sizes and scales that all layers have in common.
        embedding: `[vocabulary, hidden]`, fp32 or bf16, or what makes its rows.
        layers: From the first to the last; each is packed before the next is drawn.
        norm: `[hidden]` after the last.
        head: `[vocabulary, hidden]`, plain, quantised or packed.

    Attributes:
        quantised_bytes: Bytes of all matrices that stay quantised.
    """

    def __init__(
        self,
        library: c.Native,
        shape: StackShape,
        embedding: Tensor | EmbeddingRows,
        layers: Iterable[StackLayer],
        norm: Tensor,
        head: Tensor | QuantisedWeight | NativeLinear,
    ) -> None:
        self._library = library
        self._shape = shape
        self.quantised_bytes = 0
        self._kept: list[object] = []
        self._layers = (c.StackLayer * shape.layers)()
        for to, layer in zip(self._layers, layers, strict=True):
            self._take(to, layer)
        call = self._call = c.StackCall()
        call.layers, call.layer_count = addressof(self._layers), shape.layers
        self._embedding = embedding
        self._paired: Tensor | EmbeddingRows | None = None
        call.norm = self._norm(norm)
        packed_head = self._packed(Matrix(head))
        self._vocabulary = packed_head.outputs
        call.head = packed_head.described(After.STORE, shape.logits_scale)
        call.heads, call.hidden, call.inner = shape.heads, shape.hidden, shape.inner
        call.kind, call.epsilon = KINDS[embedding.dtype], shape.epsilon
        call.embedding_scale, call.residual_scale = shape.embedding_scale, shape.residual_scale
        call.logits_softcap = shape.logits_softcap or 0.0
        call.centered, call.parallel = shape.centered, shape.parallel
        self._at = addressof(call)
        library.trim()

    def attach(self, adapters: Sequence[Sequence[LayerLowRank]]) -> int:
        """Add adapters, each with its part of every layer; returns their bytes."""
        total = 0
        for number, layer in enumerate(self._layers):
            for name in LINEARS:
                parts = [getattr(one[number], name) for one in adapters]
                if any(part is not None for part in parts):
                    made = PackedAdapters(parts, self._embedding.dtype, gated=name == "gate_up")
                    setattr(layer, f"{name}_lora", addressof(made.table))
                    self._call.lora_ranks = max(self._call.lora_ranks, made.ranks)
                    self._kept.append(made)
                    total += made.nbytes
        return total

    def bind(self, memory: Tensor, angles: Sequence[Tensor], scales: Tensor | None = None) -> None:
        """Set the memory of keys and values.

        Args:
            memory: `[pages, layers, 2, P, K, D]` of the weights' dtype, or codes.
            angles: `[positions, D]` fp32 of each layer, cosines of a position and then sines.
            scales: `[pages, layers, 2, K, P]` bf16 of the codes, or None.
        """
        call = self._call
        set_pages(call.pages, memory[:, 0], None if scales is None else scales[:, 0])
        for index, (layer, table) in enumerate(zip(self._layers, angles, strict=True)):
            layer.page_offset = index * memory.stride(1)
            layer.scale_offset = 0 if scales is None else index * scales.stride(1)
            layer.angles = table.data_ptr()
        call.angles_stride = angles[0].stride(0)
        self._bound = memory, angles, scales

    def pair(self, embedding: Tensor | EmbeddingRows, norm: Tensor, *, normed_stream: bool) -> None:
        """Give the first layer a second input: its qkv is `[N, 2 * hidden]`, the stream last.

        Args:
            embedding: `[vocabulary, hidden]`, of the dtype of the other, or what makes its rows.
            norm: `[hidden]`, of these rows; the layer's own is that of the stream.
            normed_stream: Whether the stream goes on as it was normed.
        """
        self._paired = embedding
        self._call.paired.norm = self._norm(norm)
        self._call.paired.normed_stream = normed_stream

    def capture(self, layers: Sequence[int]) -> None:
        """Name the layers before which the stream is captured, by index from 0 on."""
        self._captured_layers = torch.tensor(layers, dtype=torch.int32)
        self._call.captured_layers = self._captured_layers.data_ptr()
        self._call.captures = len(layers)

    def __call__(
        self,
        token_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        rows: PagedRows,
        wanted: Tensor,
        adapters: Tensor | None = None,
        layer_outputs: Tensor | None = None,
        captured: Tensor | None = None,
    ) -> Tensor:
        """Logits `[wanted, vocabulary]` fp32.

        Args:
            token_ids: `[T]` int64.
            positions: `[T]` int64.
            slots: `[T]` int64, `page * P + offset`; a negative slot stores nothing.
            rows: Which row sees which pages.
            wanted: `[n]` int64, ascending, rows whose logits are wanted.
            adapters: `[T]` int32, the adapter of each row from 1 on, 0 for none; None for a batch
                without any.
            layer_outputs: `[layers, n, hidden]` fp32, filled with the residual stream behind each
                layer, or None.
            captured: `[T, n, hidden]` fp32, filled with the residual stream of all rows before the
                layers that `capture` named, or None.
        """
        call = self._call
        table, ids = _table_of(self._embedding, token_ids)
        call.embedding, call.embedding_stride = table.data_ptr(), table.stride(0)
        pair = None if self._paired is None else _table_of(self._paired, token_ids)
        if pair is not None:
            call.paired.table, call.paired.stride = pair[0].data_ptr(), pair[0].stride(0)
            call.paired.rows = pair[1].data_ptr()
        call.token_ids, call.positions = ids.data_ptr(), positions.data_ptr()
        call.slots, call.wanted = slots.data_ptr(), wanted.data_ptr()
        call.tokens, call.wanted_tokens = token_ids.shape[0], wanted.shape[0]
        kept = None if adapters is None else (adapters, adapters[wanted])  # while it computes
        call.adapters, call.wanted_adapters = (
            (None, None) if kept is None else (kept[0].data_ptr(), kept[1].data_ptr())
        )
        set_rows(call.rows, rows)
        logits = torch.empty((wanted.shape[0], self._vocabulary), dtype=torch.float32)
        call.logits, call.logits_stride = logits.data_ptr(), self._vocabulary
        call.layer_outputs = None if layer_outputs is None else layer_outputs.data_ptr()
        call.captured = None if captured is None else captured.data_ptr()
        self._library.stack(self._at)
        return logits

    def _take(self, to: c.StackLayer, layer: StackLayer) -> None:
        to.qkv = self._packed(layer.qkv).described(After.STORE)
        to.out = self._added(layer.out, layer.out_norm)
        to.gate_up = self._packed(layer.gate_up, gated=True).described(After.GATE)
        set_activation(to.gate_up.activation, self._shape.activation)
        to.down = self._added(layer.down, layer.inner_out_norm)
        to.norm, to.out_norm = self._norm(layer.norm), self._norm(layer.out_norm)
        to.inner_norm = self._norm(layer.inner_norm)
        to.inner_out_norm = self._norm(layer.inner_out_norm)
        to.query_norm, to.key_norm = self._norm(layer.query_norm), self._norm(layer.key_norm)
        to.norm_stride = 0 if layer.query_norm is None else norm_stride(layer.query_norm)
        to.epsilon = self._shape.epsilon
        score = layer.score
        sinks = None if score.sinks is None else score.sinks.float().contiguous()
        to.how = c.Score(
            score.scaling,
            score.softcap or 0.0,
            score.window or 0,
            score.unseen,
            self._held(sinks),
        )

    def _added(self, matrix: Matrix, norm: Tensor | None) -> c.Linear:
        """A matrix whose products are added to the stream, at once or when they are normed."""
        packed = self._packed(matrix)
        if norm is not None:
            return packed.described(After.STORE)
        return packed.described(After.ADD, self._shape.residual_scale)

    def _norm(self, weight: Tensor | None) -> int | None:
        return self._held(None if weight is None else weight.float().contiguous())

    def _packed(self, matrix: Matrix, *, gated: bool = False) -> NativeLinear:
        made: NativeLinear
        weight = matrix.weight
        if isinstance(weight, NativeLinear):
            made = weight
        elif isinstance(weight, Tensor):
            made = pack(self._library, weight, matrix.bias, gated=gated)
        else:
            made = pack_codes(self._library, weight, matrix.bias, gated=gated)
        if isinstance(made, QuantisedLinear):
            self.quantised_bytes += made.resident_bytes
        self._kept.append(made)
        return made

    def _held(self, tensor: Tensor | None) -> int | None:
        """The address of a tensor, which is kept as long as this object lives."""
        if tensor is None:
            return None
        self._kept.append(tensor)
        return tensor.data_ptr()


def _table_of(embedding: Tensor | EmbeddingRows, token_ids: Tensor) -> tuple[Tensor, Tensor]:
    """A table, and the row of each token in it; rows that are made are a table of their own."""
    if isinstance(embedding, Tensor):
        return embedding, token_ids
    return embedding.rows(token_ids), torch.arange(token_ids.shape[0])
