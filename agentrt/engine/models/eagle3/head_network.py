"""The network of an EAGLE-3 head: one layer over a token and a state.

The row of a token takes its embedding and the state behind the token before it: three of the
target's, fused by `fc`, or the head's own. Both are normed and stand side by side before attention;
the state goes on as the residual stream, whose value behind the layer is the head's own state.
Positions count from the second token, the first that has a state before it.

Letters of the shapes: T tokens, W width of the head, V vocabulary of the target, d that of the
head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.eagle3.head_config import HeadConfig
from agentrt.engine.models.native.expert_weights import Weights
from agentrt.engine.models.packed_embedding import PackedEmbedding

ANGLE_OFFSET = -1
"""Added to the place of a token in its text: where the head turns its row."""

FIRST_TOKEN = 1
"""Place of the first token that has a state before it."""

NEVER = -1e30
"""Logit of a token that a head does not draft; finite, so that penalties and masks leave it one."""


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Weights of a head.

    Attributes:
        decoder: By their names in a decoder of one layer, `hidden_norm` among those of the layer;
            consumed.
        embedding: `[V, W]`, of the head or of its target.
        targets: `[d]` int64, tokens of the target that the head drafts; None for all.
    """

    decoder: Weights
    embedding: Tensor | PackedEmbedding
    targets: Tensor | None


class HeadLayer(Protocol):
    """Computes the layer of a head."""

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""
        ...

    def __call__(self, batch: ForwardBatch, states: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[rows, d]` and states `[rows, W]` of the batch's `logit_rows`.

        Args:
            batch: Tokens, and where their KV lies.
            states: `[T, W]`, the state of each row.
        """
        ...


class HeadNetwork:
    """The head; the states of a forward are to be written to `states` before it.

    Args:
        config: Target of the head, and the shape of its layer.
        layer: Computes the layer.
        targets: `[d]` int64, tokens of the target that it drafts; None for all.
        parameters: Number of parameters, without an embedding that is the target's.
        is_single_call: Whether a forward is one native call.

    Attributes:
        parameters: See above.
        is_single_call: See `Network`.
        quantised_bytes: Zero: none of its matrices are quantised.
        layer_sizes: See `Network`; its states are in `outputs`.
        layer_outputs: None; likewise.
        states: `[rows, W]`, the states of the next forward's rows.
        outputs: `[logits, W]`, its own states behind the rows with logits of the last forward.
    """

    quantised_bytes = 0
    layer_sizes = (0, 0)
    layer_outputs: Tensor | None = None

    def __init__(
        self,
        config: HeadConfig,
        layer: HeadLayer,
        targets: Tensor | None,
        parameters: int,
        *,
        is_single_call: bool,
    ) -> None:
        self._layer, self._targets = layer, targets
        self._hidden, self._vocabulary = config.shape.hidden, config.vocabulary
        self.parameters, self.is_single_call = parameters, is_single_call
        self.states = self.outputs = torch.empty(0)

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""
        self._layer.bind(kv, max_rows)
        self.states = torch.zeros((max_rows, self._hidden), dtype=kv.layout.dtype)

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, V]` of the batch's `logit_rows`; of others than it drafts, `NEVER`."""
        states = self.states[: batch.fields.token_ids.shape[0]]
        logits, self.outputs = self._layer(batch, states)
        if self._targets is None:
            return logits
        wide = logits.new_full((logits.shape[0], self._vocabulary), NEVER)
        return wide.index_copy_(1, self._targets, logits)
