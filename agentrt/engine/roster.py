"""Which sequences run, which wait, and how a step's tokens are shared out among them."""

from __future__ import annotations

from collections.abc import Iterator

from agentrt.backend import GenerateRequest, RequestFacts
from agentrt.config import EngineConfig
from agentrt.engine.paging import Paging
from agentrt.engine.plan import (
    HOLE_CHUNK_TOKENS,
    StepPlan,
    VictimFacts,
    WaitingFacts,
    order_key,
    victim,
    waits_for_prefix,
)
from agentrt.engine.sequence import Phase, Sequence
from agentrt.ids import RequestId

Share = tuple[Sequence, int]
"""A sequence, and how many of its tokens a step computes."""


class Roster:
    """All sequences that are not over.

    Attributes:
        running: Those that hold a slot, in the order they got it.
        starved: Those that turned out never to fit, for the loop to end.
    """

    def __init__(self, config: EngineConfig, paging: Paging) -> None:
        self._config = config
        self._paging = paging
        self._all: dict[RequestId, Sequence] = {}
        self.running: dict[RequestId, Sequence] = {}
        self.starved: list[Sequence] = []

    def __iter__(self) -> Iterator[Sequence]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def find(self, request_id: RequestId) -> Sequence | None:
        """The sequence of a request that is not over."""
        return self._all.get(request_id)

    def add(self, sequence: Sequence) -> None:
        """Take a new one."""
        self._all[sequence.request.request_id] = sequence

    def run_started_at_s(self, request: GenerateRequest) -> float:
        """When the run of a new request began, as far as is known here."""
        same = (one for one in self._all.values() if one.request.run_id == request.run_id)
        return min((one.run_started_at_s for one in same), default=request.submitted_at_s)

    def remove(self, sequence: Sequence) -> None:
        """It is over; what it computed stays in the tree."""
        self._stop(sequence)
        del self._all[sequence.request.request_id]

    @property
    def has_runnable(self) -> bool:
        """Whether a step would compute anything."""
        return any(one.phase in (Phase.RUNNING, Phase.WAITING) for one in self._all.values())

    def plan(self, now_s: float) -> list[Share]:
        """Share out the tokens of the next step; sequences get and lose slots and pages here."""
        step = StepPlan(self._config.step_tokens)
        self._plan_decodes(step, now_s)
        self._plan_chunks(step, now_s)
        self._plan_waiting(step, now_s)
        return [(self.running[request_id], count) for request_id, count in step.shares.items()]

    def rest(self, sequence: Sequence) -> None:
        """All that is known of an incomplete prompt is computed: it waits without holding any."""
        self._stop(sequence)
        sequence.phase = Phase.HELD

    def _stop(self, sequence: Sequence) -> None:
        self._paging.leave(sequence)
        self.running.pop(sequence.request.request_id, None)

    def _pending(self, sequence: Sequence) -> int:
        return sequence.pending_tokens(self._config.page_tokens)

    def _plan_decodes(self, step: StepPlan, now_s: float) -> None:
        """Sequences whose next forward gives a token, all of what they have to compute."""
        size, most = self._config.page_tokens, self._config.prefill_chunk_tokens
        for sequence in list(self.running.values()):
            computed = sequence.computed_tokens
            if computed < sequence.prompt_tokens or sequence.phase is not Phase.RUNNING:
                continue
            # `pending_tokens` for the most common case: whoever decodes has a whole prompt.
            known = len(sequence.tokens)
            pending = sequence.pending_tokens(size) if sequence.in_flight else known - computed
            if pending <= most:
                given = step.give(sequence.request.request_id, pending, pending)
                if computed + given > len(sequence.pages) * size:
                    self._make_room(sequence, given, step, now_s)

    def _plan_chunks(self, step: StepPlan, now_s: float) -> None:
        """Prompts under way; what grows too slowly for the pages there are waits for others."""
        rest = [one for request_id, one in self.running.items() if request_id not in step.shares]
        for sequence in rest:
            if sequence.phase is not Phase.RUNNING:
                continue
            request_id = sequence.request.request_id
            given = step.give(request_id, self._pending(sequence), self._most(sequence, step))
            self._make_room(sequence, given, step, now_s)

    def _plan_waiting(self, step: StepPlan, now_s: float) -> None:
        if len(self._all) == len(self.running):
            return
        waiting = [
            one
            for one in self._all.values()
            if one.phase is Phase.WAITING and not one.in_flight and one not in self.starved
        ]
        waiting.sort(key=lambda one: order_key(now_s, _facts(one)))
        size = self._config.page_tokens
        under_way = [one.key for one in self.running.values() if one.prefills]
        for sequence in waiting:
            if step.left_tokens == 0 or self._paging.free_slots == 0:
                return
            key = sequence.key
            matched = self._paging.known_tokens(key)
            if sequence.keeps_pages and matched >= (len(sequence.tokens) - 1) // size * size:
                sequence.phase = Phase.HELD
                continue
            if waits_for_prefix(key, matched, under_way, size):
                continue
            if not self._paging.admit(sequence, spare_pages=len(self.running)):
                if not self.running:
                    self.starved.append(sequence)
                return
            self._started(sequence, now_s)
            if sequence.prefills:
                under_way.append(key)
            request_id = sequence.request.request_id
            given = step.give(request_id, self._pending(sequence), self._most(sequence, step))
            self._make_room(sequence, given, step, now_s)

    def _most(self, sequence: Sequence, step: StepPlan) -> int:
        chunk = self._config.prefill_chunk_tokens
        return chunk if sequence.complete or not step.shares else min(chunk, HOLE_CHUNK_TOKENS)

    def _started(self, sequence: Sequence, now_s: float) -> None:
        account = sequence.account
        account.start(sequence.waits_in, now_s)
        reached, matched = sequence.reached_tokens, sequence.computed_tokens
        account.cached_tokens += max(0, matched - reached)
        account.recomputed_tokens += max(0, reached - matched)
        sequence.reached_tokens = max(reached, matched)
        sequence.preempted = False
        sequence.phase = Phase.RUNNING
        self.running[sequence.request.request_id] = sequence

    def _make_room(self, sequence: Sequence, tokens: int, step: StepPlan, now_s: float) -> None:
        """Pages for `tokens` more; others, or in the end the sequence itself, make way for them."""
        while tokens:
            missing = self._paging.missing_pages(sequence, tokens)
            if self._paging.extend(sequence, missing):
                return
            if sequence.in_flight:  # it may be over: nobody makes way for what may not be needed
                step.take_back(sequence.request.request_id)
                return
            loser = victim(_victim_facts(one) for one in self.running.values())
            assert loser is not None
            step.take_back(loser)
            if loser == sequence.request.request_id:
                if len(self.running) == 1:
                    self._stop(sequence)
                    sequence.phase = Phase.WAITING
                    self.starved.append(sequence)
                else:
                    self._preempt(sequence, now_s)
                return
            self._preempt(self.running[loser], now_s)

    def _preempt(self, sequence: Sequence, now_s: float) -> None:
        """Its KV stays in the tree as long as there is room: often little is computed again."""
        account = sequence.account
        account.book(sequence.waits_in, now_s)
        account.preemptions += 1
        self._stop(sequence)
        sequence.preempted = True
        sequence.phase = Phase.WAITING


def _facts(sequence: Sequence) -> WaitingFacts:
    request = RequestFacts(
        sequence.request.request_id,
        sequence.demanded,
        sequence.run_started_at_s,
        deadline_at_s=sequence.deadline_at_s,
    )
    return WaitingFacts(request, sequence.preempted, sequence.complete)


def _victim_facts(sequence: Sequence) -> VictimFacts:
    return VictimFacts(
        sequence.request.request_id,
        sequence.output_tokens,
        sequence.prompt_tokens,
        sequence.serial,
    )
