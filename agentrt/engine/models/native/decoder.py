"""Decoders of known shape, computed by the engine itself.

The same numbers as transformers gives, in a quarter of the operations: packed projections, the
residual with the norm, the rotation with the store of keys and values. Written once over `Kernels`,
for every device.

The residual stream is carried divided by `residual_scale`: a norm does not see the factor (but for
its epsilon), so that Granite's multipliers cost nothing.

Letters of the shapes: T tokens, H query heads, K heads of keys and values, D head_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.native.layer import Layer, ready_layer
from agentrt.engine.models.native.layer_weights import take_layer
from agentrt.engine.models.native.rope import angles
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.workspace import Rows, Workspace
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels.contract import Kernels


class TorchNetwork:
    """A decoder.

    Args:
        shape: What it looks like.
        weights: By their names in checkpoints, of one dtype and device; taken apart.
        kernels: What computes.
        door: Behind which its matrices are.

    Attributes:
        parameters: How many.
    """

    is_one_call = False

    def __init__(
        self, shape: DecoderShape, weights: dict[str, Tensor], kernels: Kernels, door: LinearBackend
    ) -> None:
        self._shape = shape
        self._kernels = kernels
        self.parameters = sum(weight.numel() for weight in weights.values())
        self._embedding = weights.pop("model.embed_tokens.weight")  # [vocabulary, hidden]
        self._norm = weights.pop("model.norm.weight")
        head = self._embedding if shape.tied else weights.pop("lm_head.weight")
        self._head = door.linear(head)
        self._layers = [
            ready_layer(shape, take_layer(shape, weights, at), at, door)
            for at in range(shape.layers)
        ]
        self._embedding_scale = shape.embedding_scale / shape.residual_scale
        self._epsilon = shape.epsilon / shape.residual_scale**2
        self._pages: list[Tensor] = []

    def bind(self, kv: KvCache, most_rows: int) -> None:
        """Get ready for this KV memory and for forwards of up to `most_rows` tokens."""
        memory, shape = kv.memory, self._shape
        self._pages = [memory[:, layer] for layer in range(shape.layers)]
        positions = min(shape.positions, kv.pages * kv.layout.page_tokens)
        self._angles = angles(shape.rope, shape.head_dim, positions, memory.device)
        self._arena = Workspace(shape, most_rows, memory.dtype, memory.device)

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the wanted rows."""
        ids, positions = batch.fields.token_ids, batch.fields.positions
        room = self._arena.rows(ids.shape[0])
        kernels, stream = self._kernels, room.stream
        torch.index_select(self._embedding, 0, ids, out=stream)
        if self._embedding_scale != 1.0:
            stream.mul_(self._embedding_scale)
        kernels.rms_norm(stream, self._layers[0].norm, self._epsilon, room.normed)
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            added = self._attend(index, layer, batch, positions, room)
            if index == last:  # what is left is computed for the wanted rows only
                if not batch.logit_rows.shape[0]:
                    return stream.new_empty((0, self._shape.vocabulary))
                room, added = self._wanted(batch.logit_rows, room, added)
            added = layer.out.apply(added, room.added)
            kernels.add_rms_norm(added, room.stream, layer.inner_norm, self._epsilon, room.normed)
            added = layer.inner.apply(kernels, room.normed, room, room.added)
            norm = self._norm if index == last else self._layers[index + 1].norm
            kernels.add_rms_norm(added, room.stream, norm, self._epsilon, room.normed)
        logits = self._head.apply(room.normed)
        return logits if self._shape.logits_scale == 1.0 else logits.mul_(self._shape.logits_scale)

    def _attend(
        self, index: int, layer: Layer, batch: ForwardBatch, positions: Tensor, room: Rows
    ) -> Tensor:
        """What the heads saw, `[T, H * D]`."""
        shape, kernels, pages = self._shape, self._kernels, self._pages[index]
        qkv = layer.qkv.apply(room.normed, room.qkv)
        if layer.query_norm is not None and layer.key_norm is not None:
            query = qkv[:, : shape.query_width]
            key = qkv[:, shape.query_width : shape.query_width + shape.kv_width]
            kernels.rms_norm(query, layer.query_norm, shape.epsilon, query)
            kernels.rms_norm(key, layer.key_norm, shape.epsilon, key)
        heads = qkv.view(room.heads.shape)
        batch.wait_layer(index)
        kernels.rope_store(
            heads,
            positions,
            self._angles,
            batch.fields.slot_mapping,
            layer.head_norms,
            pages,
            room.query,
        )
        kernels.attend(room.query, pages, batch.paged, layer.score, room.mixed)
        return room.mixed.view(positions.shape[0], shape.query_width)

    def _wanted(self, wanted: Tensor, room: Rows, mixed: Tensor) -> tuple[Rows, Tensor]:
        """The wanted rows of the stream and of `mixed`, at the beginning of the same room."""
        kept = self._arena.rows(wanted.shape[0])
        torch.index_select(room.stream, 0, wanted, out=kept.normed)
        kept.stream.copy_(kept.normed)
        seen = kept.query.view(wanted.shape[0], mixed.shape[1])
        torch.index_select(mixed, 0, wanted, out=seen)
        return kept, seen
