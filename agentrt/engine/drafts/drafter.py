"""The drafts of a step: which sequences get one, how long it is, and what becomes of it.

Drafts take what the schedule leaves: no sequence is preempted for them, and none waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Rows

from agentrt.base.config import EngineConfig
from agentrt.engine.drafts.acceptance import RateKey, draft_length
from agentrt.engine.drafts.sequence_drafts import SequenceDrafts
from agentrt.engine.drafts.site_outputs import OutputsBySite
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.draft import Draft, Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepModel

_MAX_DRAFT_TOKENS = 15
_MAX_CUDA_DRAFT_TOKENS = 7
"""Tokens of a draft of adaptive length; a captured graph has at most eight rows a sequence."""

_PROBE_STEPS = 64
"""Steps after which a source that does not pay is tried again, with one token.

Above the knee a row takes a sequence's share of a step, so that probes take a 64th of the time.
"""


class Drafter:
    """Drafts the next tokens of sequences.

    Args:
        config: Config of the engine.
        allocator: Allocator of the KV pages.

    Attributes:
        is_adaptive: Whether the length of drafts depends on what they cost.
    """

    def __init__(self, config: EngineConfig, allocator: KvAllocator) -> None:
        self._allocator = allocator
        self._step_tokens = config.step_tokens
        wanted = config.speculate_tokens
        self.is_adaptive = wanted == "auto"
        if wanted == "auto":
            on_cuda = config.device == "cuda"
            self._limit = _MAX_CUDA_DRAFT_TOKENS if on_cuda else _MAX_DRAFT_TOKENS
        else:
            self._limit = 0 if wanted == "off" else wanted
        self._sites = OutputsBySite()
        self._sequences: dict[Sequence, SequenceDrafts] = {}
        self._keys: dict[Sequence, RateKey] = {}
        self._unpaid_steps: dict[Sequence, int] = {}
        self._step_model = StepModel()

    def plan(self, scheduled: Rows[tuple[Sequence, int]]) -> Mapping[Sequence, Draft]:
        """Drafts to compute with a step; allocates the pages that they need.

        Args:
            scheduled: Sequences of the step, each with the number of tokens to compute.
        """
        if not self._limit and not any(sequence.forced_draft for sequence, _ in scheduled):
            return {}
        drafts: dict[Sequence, Draft] = {}
        free_tokens = self._step_tokens - sum(count for _, count in scheduled)
        row_share = self._row_share(scheduled) if self.is_adaptive else 0.0
        for sequence, count in scheduled:
            if not _is_sampled(sequence, count):
                continue
            draft = self._draft(sequence, len(scheduled), row_share)
            if draft is None:
                continue
            wanted_tokens = min(len(draft.token_ids), free_tokens)
            if sequence.rope_threshold:  # tokens beyond it have other angles
                wanted_tokens = min(wanted_tokens, sequence.rope_threshold - len(sequence.tokens))
            tokens = self._allocate(sequence, wanted_tokens, len(scheduled))
            if tokens > 0:
                del draft.token_ids[tokens:]
                drafts[sequence] = draft
                free_tokens -= tokens
        return drafts

    def expects_drafts(self, sequences: Iterable[Sequence]) -> bool:
        """Whether a draft is likely behind the tokens that are being sampled for `sequences`."""
        if not self._limit:
            return False
        for sequence in sequences:
            if sequence.complete and not sequence.request.scored:
                guess = self._drafts_of(sequence).best_guess(2)
                if guess is not None and len(guess.token_ids) > 1:
                    return True
        return False

    def note_verified(self, verified: Rows[Verification]) -> None:
        """Learn from the drafts of a step."""
        for one in verified:
            key = self._keys.pop(one.sequence, None)
            forced = one.draft.forced_tokens
            if key is None or one.matching_tokens < forced:
                continue
            accepted = one.matching_tokens - forced
            is_whole = one.matching_tokens == len(one.draft.token_ids)
            self._drafts_of(one.sequence).note(key, accepted, is_whole=is_whole)

    def note_step(self, step: StepRecord) -> None:
        """Learn from the time of a step."""
        self._step_model.add_step(step)

    def forget(self, sequence: Sequence) -> None:
        """Keep the output of a finished sequence for its call site, and nothing else."""
        drafts = self._sequences.pop(sequence, None)
        self._keys.pop(sequence, None)
        self._unpaid_steps.pop(sequence, None)
        if drafts is not None:
            drafts.close()

    def _row_share(self, scheduled: Rows[tuple[Sequence, int]]) -> float:
        """Seconds of one row more as a share of a step without drafts."""
        prefill_tokens = rows = kv_tokens = 0
        for sequence, count in scheduled:
            kv_tokens += sequence.computed_tokens + count
            if sequence.is_prefilling:
                prefill_tokens += count
            else:
                rows += count
        time = self._step_model.step_time
        step_s = time.step_s(prefill_tokens, rows, kv_tokens)
        return time.decode_s / step_s if step_s > 0.0 else 0.0

    def _draft(self, sequence: Sequence, sequences: int, row_share: float) -> Draft | None:
        """The draft of a sequence within its own limits."""
        left_tokens = sequence.max_output_tokens - sequence.output_tokens - 1
        forced = sequence.forced_draft[: max(0, left_tokens)]
        limit = min(self._limit, left_tokens)
        if limit <= len(forced):
            return Draft(forced, len(forced)) if forced else None
        guess = self._drafts_of(sequence).best_guess(limit)
        if guess is None or guess.token_ids[: len(forced)] != forced:
            return Draft(forced, len(forced)) if forced else None
        length = limit
        if self.is_adaptive:
            length = draft_length(guess.rate, sequences, row_share, limit) or self._probe(sequence)
        token_ids = guess.token_ids[: max(length, len(forced))]
        token_ids = token_ids[: max(_count_allowed(sequence, token_ids), len(forced))]
        if len(token_ids) > len(forced):
            self._keys[sequence] = guess.key
        return Draft(token_ids, len(forced), guess.key[0]) if token_ids else None

    def _probe(self, sequence: Sequence) -> int:
        """Length of a draft that does not pay: 1 now and then, else 0."""
        steps = self._unpaid_steps.get(sequence, 0) + 1
        self._unpaid_steps[sequence] = steps % _PROBE_STEPS
        return int(steps == _PROBE_STEPS)

    def _drafts_of(self, sequence: Sequence) -> SequenceDrafts:
        found = self._sequences.get(sequence)
        if found is None:
            request = sequence.request
            outputs = self._sites.of(request.cache_salt, request.site)
            found = self._sequences[sequence] = SequenceDrafts(sequence, outputs)
        return found

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


def _count_allowed(sequence: Sequence, token_ids: list[int]) -> int:
    grammar = sequence.grammar
    return len(token_ids) if grammar is None else grammar.count_accepted(token_ids)
