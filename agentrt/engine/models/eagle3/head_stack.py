"""The layer of an EAGLE-3 head in one native call, which costs less than the calls of its parts.

It is a stack of one layer whose stream begins with states in place of embeddings, and whose
attention takes the embeddings beside them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.eagle3.head_config import HeadConfig
from agentrt.engine.models.eagle3.head_network import FIRST_TOKEN, HeadWeights
from agentrt.engine.models.native.expert_weights import plain_weight
from agentrt.engine.models.native.rope import angle_tables
from agentrt.engine.models.native.stack_weights import stack_layer
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.stack import StackShape


class HeadStates:
    """States of a batch in place of an embedding: row `i` is that of the batch's row `i`.

    Attributes:
        dtype: Type of the states.
        batch: `[T, W]`, the states of the next forward.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.batch = torch.empty(0)

    def rows(self, token_ids: Tensor) -> Tensor:
        """The states, whatever the tokens are."""
        return self.batch


class HeadStack:
    """See `HeadLayer`.

    Args:
        config: Target of the head, and the shape of its layer.
        weights: Weights of the head.
        kernels: The native kernel set.
    """

    def __init__(self, config: HeadConfig, weights: HeadWeights, kernels: CpuKernels) -> None:
        shape = self._shape = config.shape
        decoder = weights.decoder
        state_norm = plain_weight(decoder, "model.layers.0.hidden_norm.weight")
        norm = plain_weight(decoder, "model.norm.weight")
        head = plain_weight(decoder, "lm_head.weight")
        layer = stack_layer(shape, decoder, 0)
        assert layer.norm is not None
        self._states = HeadStates(norm.dtype)
        self._stack = kernels.stack(
            StackShape(1, shape.hidden, shape.heads, shape.inner, shape.epsilon),
            self._states,
            [replace(layer, norm=state_norm, score=replace(layer.score, unseen=FIRST_TOKEN))],
            norm,
            head,
        )
        self._stack.pair(weights.embedding, layer.norm, normed_stream=config.norm_before_residual)

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache; the workspace grows with the forwards."""
        shape = self._shape
        positions = min(shape.positions, kv.pages * kv.layout.page_tokens)
        tables = angle_tables(shape.ropes, shape.head_dim, positions, kv.layout.device)
        self._stack.bind(kv.memory, tables, kv.scales)

    def __call__(self, batch: ForwardBatch, states: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and states of the batch's `logit_rows`; see `HeadLayer`."""
        rows, wanted = batch.fields, batch.logit_rows
        self._states.batch = states
        outputs = torch.empty((1, wanted.shape[0], self._shape.hidden))
        logits = self._stack(
            rows.token_ids,
            rows.positions,
            rows.slot_mapping,
            batch.paged,
            wanted,
            layer_outputs=outputs,
        )
        return logits, outputs[0]
