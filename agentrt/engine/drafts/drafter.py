"""The drafts of a step: which sequences get one, how long it is, and what becomes of it.

Drafts take what the schedule leaves: no sequence is preempted for them, and none waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Rows

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.engine.drafts.acceptance import RateKey
from agentrt.engine.drafts.draft_costs import DraftCosts
from agentrt.engine.drafts.draft_model import DraftModel, DraftOrder
from agentrt.engine.drafts.source_choice import SourceChoice, model_key
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.draft import Draft, Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord


class Drafter:
    """Drafts the next tokens of sequences.

    Args:
        config: Config of the engine.
        allocator: Allocator of the KV pages.
        clock: Clock for the time of look-ups.
        model: Draft model, or None.

    Attributes:
        is_adaptive: Whether the length of drafts depends on what they cost.
    """

    def __init__(
        self,
        config: EngineConfig,
        allocator: KvAllocator,
        clock: Clock,
        model: DraftModel | None = None,
    ) -> None:
        self._allocator = allocator
        self._model = model
        self._step_tokens = config.step_tokens
        self._costs = DraftCosts(model, on_cuda=config.device == "cuda")
        self._choice = SourceChoice(config, clock, self._costs, model)
        self.is_adaptive = self._choice.is_adaptive
        self._keys: dict[Sequence, RateKey] = {}
        self._drafting_s = 0.0

    def plan(
        self, scheduled: Rows[tuple[Sequence, int]], *, before_tokens: bool = False
    ) -> Mapping[Sequence, Draft]:
        """Drafts to compute with a step; allocates the pages that they need.

        Args:
            scheduled: Sequences of the step, each with the number of tokens to compute.
            before_tokens: Whether the tokens of the last step are not known yet, so that nothing
                can follow them.
        """
        model, choice = self._model, self._choice
        if model is not None:
            for sequence, _ in scheduled:
                model.roll_back(sequence)
        if not (choice.limit or any(one.forced_draft for one, _ in scheduled)):
            return {}
        self._costs.begin_step(scheduled)
        if before_tokens:
            return {}
        rows = [sequence for sequence, count in scheduled if _is_sampled(sequence, count)]
        lookups = choice.look_up(rows)
        if model is None and not lookups:
            return {}
        orders = choice.model_tokens(rows, lookups)
        free_tokens = self._step_tokens - sum(count for _, count in scheduled)
        texts = [one for at, one in lookups.items() if at not in orders]
        choice.share(texts, free_tokens, waits=bool(orders))
        drafts: dict[Sequence, Draft] = {}
        for sequence in rows:
            lookup = lookups.get(sequence)
            wanted_tokens = orders.get(sequence) or (len(lookup.draft.token_ids) if lookup else 0)
            wanted_tokens = min(wanted_tokens, free_tokens)
            if sequence.rope_threshold:  # tokens beyond it have other angles
                wanted_tokens = min(wanted_tokens, sequence.rope_threshold - len(sequence.tokens))
            tokens = 0
            if wanted_tokens > 0:
                tokens = self._allocate(sequence, wanted_tokens, len(scheduled))
            if sequence in orders:
                orders[sequence] = tokens
            if tokens > 0:
                free_tokens -= tokens
                if lookup is not None:
                    del lookup.draft.token_ids[tokens:]
                    drafts[sequence] = lookup.draft
                    if lookup.key is not None and tokens > lookup.draft.forced_tokens:
                        self._keys[sequence] = lookup.key
        if model is not None:
            drafts |= self._draft_by_model(model, orders, scheduled)
        return drafts

    def awaits_tokens(self, sequences: Iterable[Sequence]) -> bool:
        """Whether the tokens that are being sampled are worth the wait, for the drafts behind them.

        Drafts of one sequence have to save more than all lose by a device that waits.
        """
        if not self._choice.limit:
            return False
        gain = self._choice.expected_gain(
            one for one in sequences if one.complete and not one.request.scored
        )
        return gain > (self._costs.wait if self.is_adaptive else 0.0)

    def note_verified(self, verified: Rows[Verification]) -> None:
        """Learn from the drafts of a step."""
        for one in verified:
            key = self._keys.pop(one.sequence, None)
            forced = one.draft.forced_tokens
            if key is None or one.matching_tokens < forced:
                continue
            accepted = one.matching_tokens - forced
            is_whole = one.matching_tokens == len(one.draft.token_ids)
            self._choice.drafts_of(one.sequence).note(key, accepted, is_whole=is_whole)

    def note_step(self, step: StepRecord, draft_rows: int) -> None:
        """Learn from the time of a step, of whose rows so many were of drafts."""
        self._costs.note_step(step, draft_rows, self._drafting_s)
        self._drafting_s = 0.0

    def note_wait(self, waited_s: float) -> None:
        """Learn how long a device waits for a step that was launched when all tokens were known."""
        self._costs.note_wait(waited_s)

    def forget(self, sequence: Sequence) -> None:
        """Keep the output of a finished sequence for its call site, and nothing else."""
        self._keys.pop(sequence, None)
        self._choice.forget(sequence)

    def _draft_by_model(
        self,
        model: DraftModel,
        tokens: Mapping[Sequence, int],
        scheduled: Rows[tuple[Sequence, int]],
    ) -> dict[Sequence, Draft]:
        """Drafts of the model; it computes prompts along for which it will draft."""
        orders = {
            sequence: DraftOrder(count, sequence.forced_draft)
            for sequence, count in tokens.items()
            if count > len(sequence.forced_draft)
        }
        prefills = [
            (sequence, count)
            for sequence, count in scheduled
            if sequence not in orders
            and sequence.is_prefilling
            and self._choice.will_draft_by_model(sequence)
        ]
        if not orders and not prefills:
            return {}
        drafts: dict[Sequence, Draft] = {}
        for sequence, token_ids in model.draft(orders, prefills).items():
            drafts[sequence] = Draft(token_ids, len(sequence.forced_draft), model.source)
            self._keys[sequence] = model_key(model)
        self._drafting_s = model.drafting_s
        return drafts

    def _allocate(self, sequence: Sequence, tokens: int, sequences: int) -> int:
        """Tokens of a draft for which there are pages; takes none that others need soon."""
        allocator = self._allocator
        size = allocator.page_tokens
        known_tokens = len(sequence.tokens)
        missing = -(-(known_tokens + tokens) // size) - len(sequence.pages)
        if missing > 0 and (
            allocator.available_pages < missing + sequences
            or not allocator.extend(sequence, missing)
        ):
            return min(tokens, len(sequence.pages) * size - known_tokens)
        return tokens


def _is_sampled(sequence: Sequence, count: int) -> bool:
    """Whether a token is sampled for the sequence behind `count` more, all of them known."""
    known_tokens = len(sequence.tokens)
    return (
        sequence.complete
        and not sequence.request.scored
        and sequence.computed_tokens + count == known_tokens
    )
