"""The layer of an EAGLE-3 head, an operation of a kernel set at a time."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.eagle3.head_config import HeadConfig
from agentrt.engine.models.eagle3.head_network import FIRST_TOKEN, HeadWeights
from agentrt.engine.models.native.expert_weights import plain_weight
from agentrt.engine.models.native.experts import Gated
from agentrt.engine.models.native.layer import take_layer
from agentrt.engine.models.native.rope import angle_tables
from agentrt.engine.models.native.workspace import Workspace
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import Kernels


class HeadOperations:
    """See `HeadLayer`.

    Args:
        config: Target of the head, and the shape of its layer.
        weights: Weights of the head.
        kernels: Kernel set that computes.
        backend: Chooses the format of its matrices.
    """

    def __init__(
        self, config: HeadConfig, weights: HeadWeights, kernels: Kernels, backend: LinearBackend
    ) -> None:
        self._shape, self._kernels = config.shape, kernels
        self._norms_stream = config.norm_before_residual
        self._embedding = weights.embedding
        decoder = weights.decoder
        self._state_norm = plain_weight(decoder, "model.layers.0.hidden_norm.weight")
        self._norm = plain_weight(decoder, "model.norm.weight")
        self._head: Linear = backend.linear(decoder.pop("lm_head.weight"))
        layer = self._layer = take_layer(config.shape, decoder, 0, backend)
        assert isinstance(layer.inner, Gated)
        assert layer.norm is not None
        assert layer.inner_norm is not None
        self._inner, self._token_norm, self._inner_norm = layer.inner, layer.norm, layer.inner_norm
        self._score = replace(layer.score, unseen=FIRST_TOKEN)

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""
        shape, layout = self._shape, kv.layout
        self._pages = kv.memory[:, 0]
        self._scales = None if kv.scales is None else kv.scales[:, 0]
        positions = min(shape.positions, kv.pages * layout.page_tokens)
        (self._angles,) = angle_tables(shape.ropes, shape.head_dim, positions, layout.device)
        self._workspace = Workspace(shape, max_rows, layout.dtype, layout.device, for_experts=False)

    def __call__(self, batch: ForwardBatch, states: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and states of the batch's `logit_rows`; see `HeadLayer`."""
        shape, kernels, layer = self._shape, self._kernels, self._layer
        ids, wanted = batch.fields.token_ids, batch.logit_rows
        rows = self._workspace.rows(ids.shape[0])
        kernels.rms_norm(states, self._state_norm, shape.epsilon, rows.normed)
        stream = (rows.normed if self._norms_stream else states)[wanted]
        kernels.rms_norm(self._embedded(ids), self._token_norm, shape.epsilon, rows.added)
        qkv = layer.qkv.apply(torch.cat((rows.added, rows.normed), -1), rows.qkv)
        kernels.rope_store(
            qkv.view(rows.heads.shape),
            batch.fields.positions,
            self._angles,
            batch.fields.slot_mapping,
            None,
            self._pages,
            rows.query,
            self._scales,
        )
        if not wanted.shape[0]:
            return stream.new_empty((0, shape.vocabulary)).float(), stream
        kernels.attend(rows.query, self._pages, batch.paged, self._score, rows.mixed, self._scales)
        mixed = rows.mixed.view(ids.shape[0], shape.query_width)[wanted]
        rows = self._workspace.rows(wanted.shape[0])
        delta = layer.out.apply(mixed, rows.added)
        kernels.add_rms_norm(delta, stream, self._inner_norm, shape.epsilon, rows.normed)
        delta = self._inner.apply(kernels, rows.normed, rows, rows.added)
        kernels.add_rms_norm(delta, stream, self._norm, shape.epsilon, rows.normed)
        return self._head.apply(rows.normed).float(), stream

    def _embedded(self, token_ids: Tensor) -> Tensor:
        if isinstance(self._embedding, Tensor):
            return self._embedding[token_ids]
        return self._embedding.rows(token_ids)
