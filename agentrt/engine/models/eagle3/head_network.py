"""The network of an EAGLE-3 head: one layer over a token and a state, over a kernel set.

The row of a token takes its embedding and the state behind the token before it: three of the
target's, fused by `fc`, or the head's own. Both are normed and stand side by side before attention;
the state goes on as the residual stream, whose value behind the layer is the head's own state.
Positions count from the second token, the first that has a state before it.

Letters of the shapes: T tokens, H query heads, K heads of keys and values, D head_dim, W width of
the head, V vocabulary of the target, d that of the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.eagle3.head_config import HeadConfig
from agentrt.engine.models.native.expert_weights import Weights, plain_weight
from agentrt.engine.models.native.experts import Gated
from agentrt.engine.models.native.layer import take_layer
from agentrt.engine.models.native.rope import angle_tables
from agentrt.engine.models.native.weights import parameter_count
from agentrt.engine.models.native.workspace import Workspace
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import Kernels

ANGLE_OFFSET = -1
"""Added to the place of a token in its text: where the head turns its row."""

NEVER = -1e30
"""Logit of a token that a head does not draft; finite, so that penalties and masks leave it one."""

FIRST_TOKEN = 1
"""Place of the first token that has a state before it."""


class HeadNetwork:
    """The head; its input states are to be written to `states` before each forward.

    Args:
        config: Target of the head, and the shape of its layer.
        weights: Weights by their names in a decoder, `hidden_norm` among those of the layer;
            consumed.
        targets: `[d]` int64, tokens of the target that it drafts; None for all.
        kernels: Kernel set that computes.
        backend: Chooses the format of its matrices.
        embed: Embeddings `[T, W]` of token ids `[T]`.

    Attributes:
        parameters: Number of parameters, without an embedding that is the target's.
        quantised_bytes: None of its matrices are quantised.
        layer_sizes: See `Network`; its states are in `outputs`.
        layer_outputs: None; likewise.
        states: `[rows, W]`, the states of the next forward's rows.
        outputs: `[logits, W]`, its own states behind the rows with logits of the last forward.
    """

    is_single_call = False
    quantised_bytes = 0
    layer_sizes = (0, 0)
    layer_outputs: Tensor | None = None

    def __init__(
        self,
        config: HeadConfig,
        weights: Weights,
        targets: Tensor | None,
        kernels: Kernels,
        backend: LinearBackend,
        embed: Callable[[Tensor], Tensor],
    ) -> None:
        shape = self._shape = config.shape
        self._config, self._kernels, self._targets = config, kernels, targets
        self._embed = embed
        self.parameters = parameter_count(shape, weights)
        self._state_norm = plain_weight(weights, "model.layers.0.hidden_norm.weight")
        self._norm = plain_weight(weights, "model.norm.weight")
        self._head: Linear = backend.linear(weights.pop("lm_head.weight"))
        layer = take_layer(shape, weights, 0, backend)
        assert isinstance(layer.inner, Gated)
        assert layer.norm is not None
        assert layer.inner_norm is not None
        self._layer = layer
        self._inner, self._token_norm, self._inner_norm = layer.inner, layer.norm, layer.inner_norm
        self._score = replace(layer.score, unseen=FIRST_TOKEN)
        self.states = self.outputs = torch.empty(0)

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""
        shape, layout = self._shape, kv.layout
        self._pages = kv.memory[:, 0]
        self._scales = None if kv.scales is None else kv.scales[:, 0]
        positions = min(shape.positions, kv.pages * layout.page_tokens)
        (self._angles,) = angle_tables(shape.ropes, shape.head_dim, positions, layout.device)
        self._workspace = Workspace(shape, max_rows, layout.dtype, layout.device, for_experts=False)
        self.states = torch.zeros((max_rows, shape.hidden), dtype=layout.dtype)

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, V]` of the batch's `logit_rows`; others than it drafts: `NEVER`."""
        shape, kernels, layer = self._shape, self._kernels, self._layer
        ids = batch.fields.token_ids
        rows = self._workspace.rows(ids.shape[0])
        stream = rows.stream
        stream.copy_(self.states[: ids.shape[0]])
        kernels.rms_norm(stream, self._state_norm, shape.epsilon, rows.normed)
        if self._config.norm_before_residual:
            stream.copy_(rows.normed)
        embedded = self._embed(ids)
        kernels.rms_norm(embedded, self._token_norm, shape.epsilon, rows.added)
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
        wanted = batch.logit_rows
        if not wanted.shape[0]:
            return stream.new_empty((0, self._config.vocabulary))
        kernels.attend(rows.query, self._pages, batch.paged, self._score, rows.mixed, self._scales)
        mixed = rows.mixed.view(ids.shape[0], shape.query_width)[wanted]
        stream = stream[wanted]
        rows = self._workspace.rows(wanted.shape[0])
        delta = layer.out.apply(mixed, rows.added)
        kernels.add_rms_norm(delta, stream, self._inner_norm, shape.epsilon, rows.normed)
        delta = self._inner.apply(kernels, rows.normed, rows, rows.added)
        kernels.add_rms_norm(delta, stream, self._norm, shape.epsilon, rows.normed)
        self.outputs = stream
        return self._spread(self._head.apply(rows.normed).float())

    def _spread(self, logits: Tensor) -> Tensor:
        """Logits `[rows, d]` at the places of their tokens, `[rows, V]`."""
        if self._targets is None:
            return logits
        wide = logits.new_full((logits.shape[0], self._config.vocabulary), NEVER)
        wide.index_copy_(1, self._targets, logits)
        return wide
