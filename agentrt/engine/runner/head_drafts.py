"""Drafts of an EAGLE-3 head: it goes on from the states of the target, then from its own.

The row of a token takes the state behind the token before it. That of the target is known for all
tokens that the target has computed, and so is the row of the token behind them: these rows are
computed once, like those of a draft model, and kept by page. Behind them the head feeds its own
states to itself, one token after the other; such rows are written again once the target's states
are known.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.models.eagle3.head_network import ANGLE_OFFSET, FIRST_TOKEN, HeadNetwork
from agentrt.engine.runner.draft_runner import HeadRunner
from agentrt.engine.runner.model_drafts import ModelDrafts, OpenDraft
from agentrt.engine.sampling.token_sampler import TokenSampler
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource

_MOST_FED = 4
"""Known tokens without a state of the target behind which a draft begins: each takes a forward."""


class HeadDrafts(ModelDrafts):
    """Drafts tokens with a head; see `DraftModel`.

    Args:
        head: Computes the head.
        sampler: Sampler of the target.
        config: Config of the engine.
        clock: Clock for the time of its forwards.
    """

    source: DraftSource = "eagle"
    first_token = FIRST_TOKEN

    def __init__(
        self,
        head: HeadRunner,
        sampler: TokenSampler,
        config: EngineConfig,
        clock: Clock,
    ) -> None:
        super().__init__(head.runner, sampler, config, clock)
        self._network: HeadNetwork = head.network
        self._kept = head.states
        self._tables = head.runner.tables.host_table
        self._last: dict[Sequence, int] = {}

    def clear(self, pages: list[PageId]) -> None:
        """See `DraftModel`."""
        super().clear(pages)
        self._kept.clear(pages)

    def reach(self, sequence: Sequence) -> int:
        """The tokens that the target has computed, and one more."""
        return sequence.computed_tokens + 1

    def begins(self, one: OpenDraft) -> bool:
        """Whether a state of the target is left to begin with, and few tokens lie behind it."""
        known = len(one.row.sequence.tokens) + len(one.row.token_ids)
        return one.computed_tokens < min(known, one.reach) and known - one.reach <= _MOST_FED

    def slice(
        self, sequence: Sequence, token_ids: list[int], first_position: int, *, wants_logits: bool
    ) -> SequenceSlice:
        """Tokens of a sequence in a forward of the head."""
        return SequenceSlice(
            sequence.slot, token_ids, first_position, wants_logits, angle_offset=ANGLE_OFFSET
        )

    def forward(self, slices: list[SequenceSlice], open_drafts: Rows[OpenDraft]) -> Tensor:
        """Logits behind the slices of the drafts, `[drafts, vocabulary]`."""
        states, start = self._network.states, 0
        fed: list[int] = []
        sources: list[int] = []
        for at, part in enumerate(slices):
            end = start + len(part.token_ids)
            one = open_drafts[at] if at < len(open_drafts) else None
            if one is not None and part.first_position >= one.reach:  # behind its own state
                fed.append(start)
                sources.append(self._last[one.row.sequence])
            else:
                pages = self._tables[part.slot]
                self._kept.read(pages, part.first_position - 1, states[start:end])
            start = end
        if fed:
            states[fed] = self._network.outputs[sources]
        logits = self._runner.forward(slices)
        self._last = {one.row.sequence: at for at, one in enumerate(open_drafts)}
        return logits
