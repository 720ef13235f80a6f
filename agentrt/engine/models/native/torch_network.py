"""Decoders of known shape, computed by the engine itself with torch and a kernel set.

The same numbers as transformers computes, in a quarter of the operations: packed projections, the
residual fused with the norm, the rotation fused with the store of keys and values. Written once
over `Kernels`, for every device.

The residual stream is carried divided by `residual_scale`. A norm does not see the factor (but for
its epsilon), so Granite's multipliers cost nothing.

Letters of the shapes: T tokens, H query heads, K heads of keys and values, D head_dim.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.native.adapted_layer import RowAdapters
from agentrt.engine.models.native.expert_load import ExpertLoad
from agentrt.engine.models.native.experts import Experts
from agentrt.engine.models.native.kernel_routing import KernelRouting
from agentrt.engine.models.native.layer import Layer, embedding_scale
from agentrt.engine.models.native.layer_weights import LayerWeights
from agentrt.engine.models.native.rope import angle_tables
from agentrt.engine.models.native.routing import Routing, trained
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stream_capture import StreamCapture
from agentrt.engine.models.native.workspace import ActivationRows, Workspace
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.ops.linear import Linear
from agentrt_kernels.contract import Kernels
from agentrt_kernels.lora import LayerLowRank


class TorchNetwork:
    """A decoder over a kernel set.

    Args:
        shape: Shape of the decoder.
        weights: Weights of the decoder, on one device.
        kernels: Kernel set that computes.

    Attributes:
        parameters: Number of parameters.
        quantised_bytes: Bytes of the matrices that stay quantised.
        routing: Decides which experts tokens take; may be set between forwards.
        expert_load: Counts what they take, or None; likewise.
        expert_offload: Bounded memory for experts, or None if all are in memory.
        layer_sizes: Layers, and the width of their outputs.
        layer_outputs: See `Network`.
        embedding: `[vocabulary, hidden]`, plain or packed.
        capture: Where the stream before some layers is kept in each forward, or None.
    """

    is_single_call = False

    def __init__(self, shape: DecoderShape, weights: LayerWeights, kernels: Kernels) -> None:
        self._shape = shape
        self._kernels = kernels
        self.layer_sizes = (shape.layers, shape.hidden)
        self.layer_outputs: Tensor | None = None
        self.capture: StreamCapture | None = None
        self.parameters = weights.parameters
        self.embedding = weights.embedding
        self._norm, self._head = weights.norm, weights.head
        self._layers = list(weights.layers)
        self._adapters = RowAdapters()
        self.quantised_bytes = weights.quantised_bytes
        if isinstance(self.embedding, PackedEmbedding):
            self.quantised_bytes += self.embedding.resident_bytes
        self.routing: Routing = trained
        self._trained: Routing = trained
        self.expert_load: ExpertLoad | None = None
        self.expert_offload = weights.expert_offload
        scale = embedding_scale(shape, self.embedding.dtype)
        self._embedding_scale = scale / shape.residual_scale
        self._epsilon = shape.epsilon / shape.residual_scale**2
        self._pages: list[Tensor] = []
        self._scales: list[Tensor | None] = []

    def attach(self, adapters: Sequence[Sequence[LayerLowRank]]) -> None:
        """Add adapters, each by layer; rows name them by numbers from 1 on."""
        self._layers = [
            self._adapters.adapted(layer, [one[number] for one in adapters])
            for number, layer in enumerate(self._layers)
        ]

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""
        memory, scales, shape = kv.memory, kv.scales, self._shape
        layers = range(shape.layers)
        self._pages = [memory[:, layer] for layer in layers]
        self._scales = [None if scales is None else scales[:, layer] for layer in layers]
        positions = min(shape.positions, kv.pages * kv.layout.page_tokens)
        self._angles = angle_tables(shape.ropes, shape.head_dim, positions, memory.device)
        needed = any(
            isinstance(layer.inner, Experts) and layer.inner.routed.needs_rows
            for layer in self._layers
        )
        self._trained = KernelRouting(self._kernels) if needed else trained
        self._workspace = Workspace(
            shape, max_rows, kv.layout.dtype, memory.device, for_experts=needed
        )

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the batch's `logit_rows`."""
        ids, positions = batch.fields.token_ids, batch.fields.positions
        self._adapters.of_rows = batch.adapters
        rows = self._workspace.rows(ids.shape[0])
        kernels, stream = self._kernels, rows.stream
        if isinstance(self.embedding, PackedEmbedding):
            stream.copy_(self.embedding.rows(ids))
        else:
            torch.index_select(self.embedding, 0, ids, out=stream)
        if self._embedding_scale != 1.0:
            stream.mul_(self._embedding_scale)
        x, first = stream, self._layers[0].norm  # what the next part of a layer takes
        if first is not None:
            x = rows.normed
            kernels.rms_norm(stream, first, self._epsilon, x, centered=self._shape.centered)
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            if self.capture is not None:
                self.capture.keep(index, rows.stream, self._shape.residual_scale)
            delta = self._attend(index, layer, batch, positions, x, rows)
            if index == last:  # the rest is computed for the rows with logits only
                if not batch.logit_rows.shape[0]:
                    return stream.new_empty((0, self._shape.vocabulary))
                rows, delta = self._select_rows(batch.logit_rows, rows, delta)
                x = rows.normed
                self._adapters.select(batch.logit_rows)
            delta = layer.out.apply(delta, rows.added)
            if self._shape.parallel:
                rows.stream.add_(delta)
            else:
                x = self._add(delta, layer.out_norm, layer.inner_norm, rows)
            inner = layer.inner
            if isinstance(inner, Experts):
                routing = self._routing(index, batch, is_last=index == last)
                delta = inner.apply(kernels, x, rows, rows.added, routing)
            else:
                delta = inner.apply(kernels, x, rows, rows.added)
            norm = self._norm if index == last else self._layers[index + 1].norm
            x = self._add(delta, layer.inner_out_norm, norm, rows)
            if self.layer_outputs is not None:
                kept = rows.stream if index == last else rows.stream[batch.logit_rows]
                self.layer_outputs[index].copy_(kept).mul_(self._shape.residual_scale)
        return self._scaled(self._head.apply(x))

    def _routing(self, layer: int, batch: ForwardBatch, *, is_last: bool) -> Routing:
        """The routing of a layer, which counts if the batch says for whom."""
        groups = batch.load_groups
        routing = self._trained if self.routing is trained else self.routing
        if self.expert_load is None or groups is None:
            return routing
        if is_last:
            groups = groups[batch.logit_rows]
        return self.expert_load.counted(layer, routing, groups)

    def _add(
        self, delta: Tensor, behind: Tensor | None, before: Tensor | None, rows: ActivationRows
    ) -> Tensor:
        """Add a part of a layer to the stream; returns what the next part takes.

        Args:
            delta: `[T, hidden]`, overwritten.
            behind: Norm of `delta`.
            before: Norm of what the next part takes.
            rows: Holds the stream.
        """
        kernels, centered = self._kernels, self._shape.centered
        if behind is not None:
            kernels.rms_norm(delta, behind, self._shape.epsilon, delta, centered=centered)
        if before is None:
            return rows.stream.add_(delta)
        kernels.add_rms_norm(
            delta, rows.stream, before, self._epsilon, rows.normed, centered=centered
        )
        return rows.normed

    def _scaled(self, logits: Tensor) -> Tensor:
        """The logits times their factor, and within their bound."""
        scale, softcap = self._shape.logits_scale, self._shape.logits_softcap
        if scale != 1.0:
            logits.mul_(scale)
        return logits if softcap is None else logits.div_(softcap).tanh_().mul_(softcap)

    def _attend(
        self,
        index: int,
        layer: Layer[Linear],
        batch: ForwardBatch,
        positions: Tensor,
        x: Tensor,
        rows: ActivationRows,
    ) -> Tensor:
        """Output of the heads for `x` `[T, hidden]`: `[T, H * D]`."""
        shape, kernels = self._shape, self._kernels
        pages, scales = self._pages[index], self._scales[index]
        qkv = layer.qkv.apply(x, rows.qkv)
        if layer.query_norm is not None and layer.key_norm is not None and not layer.head_norms:
            query = qkv[:, : shape.query_width]
            key = qkv[:, shape.query_width : shape.query_width + shape.kv_width]
            for part, norm in ((query, layer.query_norm), (key, layer.key_norm)):
                kernels.rms_norm(part, norm, shape.epsilon, part, centered=shape.centered)
        heads = qkv.view(rows.heads.shape)
        batch.wait_layer(index)
        kernels.rope_store(
            heads,
            positions,
            self._angles[index],
            batch.fields.slot_mapping,
            layer.head_norms,
            pages,
            rows.query,
            scales,
        )
        kernels.attend(rows.query, pages, batch.paged, layer.score, rows.mixed, scales)
        return rows.mixed.view(positions.shape[0], shape.query_width)

    def _select_rows(
        self, logit_rows: Tensor, rows: ActivationRows, mixed: Tensor
    ) -> tuple[ActivationRows, Tensor]:
        """The rows with logits of the stream and of `mixed`, at the start of the workspace.

        In a parallel layer those of the norm, too, which the MLP takes after attention.
        """
        selected = self._workspace.rows(logit_rows.shape[0])
        if self._shape.parallel:
            torch.index_select(rows.normed, 0, logit_rows, out=selected.added)
        torch.index_select(rows.stream, 0, logit_rows, out=selected.normed)
        selected.stream.copy_(selected.normed)
        if self._shape.parallel:
            selected.normed.copy_(selected.added)
        selected_mixed = selected.query.view(logit_rows.shape[0], mixed.shape[1])
        torch.index_select(mixed, 0, logit_rows, out=selected_mixed)
        return selected, selected_mixed
