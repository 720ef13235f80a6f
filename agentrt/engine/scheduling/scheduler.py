"""Which sequences run, which wait, and how a step's tokens are shared out among them."""

from __future__ import annotations

from collections.abc import Iterator

from agentrt.base.config import EngineConfig
from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.admission import BatchAdmission
from agentrt.engine.scheduling.request_info import first_info, later_info
from agentrt.engine.scheduling.standstill import UnchangedQueue
from agentrt.engine.scheduling.token_budget import (
    PreemptionCandidate,
    TokenBudget,
    preemption_victim,
)
from agentrt.engine.scheduling.waiting_queue import WaitingQueue
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.scheduler.order.order import EXPRESS_SHARE

Share = tuple[Sequence, int]
"""A sequence, and how many of its tokens a step computes."""


class Scheduler:
    """All sequences that are not over.

    Attributes:
        running: Those that hold a slot, in the order they got it.
        line: In which order they are served.
    """

    def __init__(self, config: EngineConfig, paging: KvAllocator) -> None:
        self._config = config
        self._paging = paging
        self._all: dict[RequestId, Sequence] = {}
        self.running: dict[RequestId, Sequence] = {}
        self.line = WaitingQueue(config, paging)
        self._door = BatchAdmission(paging, self.running)
        self._standstill = UnchangedQueue(paging)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    @property
    def waiting(self) -> int:
        """How many have no place in a step, for whatever they wait."""
        return len(self._all) - len(self.running)

    def find(self, request_id: RequestId) -> Sequence | None:
        """The sequence of a request that is not over."""
        return self._all.get(request_id)

    @property
    def starved(self) -> list[Sequence]:
        """Those that turned out never to fit, for the loop to end."""
        return self._door.starved

    def add(self, sequence: Sequence) -> None:
        """Take a new one."""
        self._all[sequence.request.request_id] = sequence

    def fill(self, sequence: Sequence, token_ids: tuple[int, ...]) -> None:
        """More of a prompt is known."""
        sequence.tokens += token_ids
        sequence.prompt_tokens = len(sequence.tokens)
        if sequence.phase is Phase.HELD:
            sequence.phase = Phase.WAITING
        self._standstill.end()

    def facts_of(self, request: GenerateRequest, now_s: float) -> SchedulingInfo:
        """What is known of a new request: what came with it, else what can be seen here."""
        return first_info(request, (one.facts for one in self._all.values()), now_s)

    def tell(self, facts: SchedulingInfo) -> None:
        """What the place of a request depends on has changed; one that is over is no error."""
        sequence = self._all.get(facts.request_id)
        if sequence is not None:
            sequence.facts = later_info(sequence.facts, facts)
            self._standstill.end()

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
        step = TokenBudget(self._config.step_tokens)
        self._plan_decodes(step, now_s)
        self._plan_prompts(step, now_s)
        return [(self.running[request_id], count) for request_id, count in step.shares.items()]

    def rest(self, sequence: Sequence) -> None:
        """All that is known of an incomplete prompt is computed: it waits without holding any."""
        self._stop(sequence)
        sequence.phase = Phase.HELD

    def _stop(self, sequence: Sequence) -> None:
        self._paging.leave(sequence)
        self._standstill.end()
        sequence.express = False
        self.running.pop(sequence.request.request_id, None)

    def _pending(self, sequence: Sequence) -> int:
        return sequence.pending_tokens(self._config.page_tokens)

    def _plan_decodes(self, step: TokenBudget, now_s: float) -> None:
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

    def _plan_prompts(self, step: TokenBudget, now_s: float) -> None:
        """Prompts, begun or not, in the scheduler's order, as long as there are tokens left."""
        begun = [one for request_id, one in self.running.items() if request_id not in step.shares]
        waiting = self._waiting() if len(self._all) > len(self.running) else []
        if not begun and (not waiting or self._standstill.passes(waiting)):
            return
        self.line.note_left_out(*self._standstill.take_passed())
        door = self._door
        door.open(waiting)
        if step.left_tokens:
            is_open = self._paging.free_slots or self._has_idle(waiting)
            line = self.line.sort(now_s, begun + waiting if is_open else begun)
            if len(line) > 1:
                self._serve_overdue(line, step, now_s)
            for sequence in line:
                if not step.left_tokens:
                    break
                if door.is_shut and sequence.phase is Phase.WAITING:
                    continue
                self._serve(sequence, step, self._config.prefill_chunk_tokens, now_s)
        self.line.note_left_out(door.causes)
        self._standstill.begin(waiting, door.causes)

    def _waiting(self) -> list[Sequence]:
        found = [
            one for one in self._all.values() if one.phase is Phase.WAITING and not one.in_flight
        ]
        starved = self.starved
        return [one for one in found if one not in starved] if starved else found

    def _serve_overdue(self, line: list[Sequence], step: TokenBudget, now_s: float) -> None:
        """Who waited beyond all measure goes first, with a small part of the step and of the slots.

        The first of them is let in before anybody else is, whatever that takes.
        """
        config = self._config
        share_tokens = max(config.page_tokens, int(EXPRESS_SHARE * config.step_tokens))
        slots = max(1, int(EXPRESS_SHARE * config.max_running))
        slots -= sum(one.express for one in self.running.values())
        for sequence in self.line.overdue(now_s, line):
            before = step.left_tokens
            if not before or share_tokens <= 0:
                return
            waits = sequence.phase is Phase.WAITING
            if waits and slots <= 0:
                continue
            self._serve(sequence, step, share_tokens, now_s)
            share_tokens -= before - step.left_tokens
            if waits and sequence.phase is Phase.RUNNING:
                sequence.express = True
                slots -= 1
            elif self._door.causes.get(sequence) == "pages":
                self._door.shut("pages")
                return

    def _serve(
        self,
        sequence: Sequence,
        step: TokenBudget,
        most_tokens: int,
        now_s: float,
        wanted_by: Sequence | None = None,
    ) -> None:
        """Up to so many tokens of a prompt; first it is let in, if it can be.

        What nobody waits for has to do with what others leave: it may not make their step longer.
        """
        slack = not (wanted_by or sequence).is_wanted and self._is_busy(step)
        if slack:
            most_tokens = min(most_tokens, step.slack_tokens)
            if not most_tokens:
                return
        if sequence.phase is Phase.WAITING and not self._let_in(sequence, step, now_s):
            return
        if sequence.phase is not Phase.RUNNING:
            return
        before = step.left_tokens
        request_id = sequence.request.request_id
        given = step.give(request_id, self._pending(sequence), most_tokens)
        if slack:
            step.slack_tokens -= before - step.left_tokens
        self._make_room(sequence, given, step, now_s)

    def _is_busy(self, step: TokenBudget) -> bool:
        """Whether somebody waits for tokens of the step."""
        return any(self.running[request_id].is_wanted for request_id in step.shares)

    def _let_in(self, sequence: Sequence, step: TokenBudget, now_s: float) -> bool:
        door = self._door
        if door.is_shut or sequence not in door.causes:  # else it lost its pages in this very step
            return False
        size = self._config.page_tokens
        matched = self._paging.known_tokens(sequence.key)
        if sequence.keeps_pages and matched >= (len(sequence.tokens) - 1) // size * size:
            sequence.phase = Phase.HELD
            del door.causes[sequence]
            return False
        owner = door.owner(sequence, matched)
        if owner is not None:
            self._wait_for(owner, sequence, step, now_s)
            return False
        if not door.admit(sequence, matched, lambda: self._make_way(sequence, step, now_s)):
            return False
        self.line.note_admission(sequence, len(step.shares), now_s)
        self._started(sequence, now_s)
        return True

    def _has_idle(self, waiting: list[Sequence]) -> bool:
        """Whether somebody is waited for while somebody runs whom nobody waits for."""
        idle = any(not one.is_wanted for one in self.running.values())
        return idle and any(one.is_wanted for one in waiting)

    def _make_way(self, sequence: Sequence, step: TokenBudget, now_s: float) -> bool:
        """Have the least urgent leave of those that run in slack; False when there is none."""
        if not sequence.is_wanted or self._door.has_no_idle:
            return False
        idle = [one for one in self.running.values() if not one.is_wanted]
        loser = preemption_victim(self._victim_facts(one, now_s) for one in idle)
        if loser is None:
            self._door.has_no_idle = True
            return False
        step.take_back(loser)
        self._preempt(self.running[loser], now_s)
        return True

    def _wait_for(
        self, owner: Sequence, sequence: Sequence, step: TokenBudget, now_s: float
    ) -> None:
        """Another one computes what this one needs: at this one's place, if it had a later one."""
        door = self._door
        door.causes[sequence] = "prefix"
        same_run = owner.request.run_id == sequence.request.run_id
        if self.line.together and same_run and "prefix" not in sequence.standing.passed_over:
            door.keep_room(sequence, owner)
        if owner.request.request_id not in step.shares:
            most = self._config.prefill_chunk_tokens
            self._serve(owner, step, most, now_s, wanted_by=sequence)

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

    def _make_room(self, sequence: Sequence, tokens: int, step: TokenBudget, now_s: float) -> None:
        """Pages for `tokens` more; others, or in the end the sequence itself, make way for them."""
        while tokens:
            missing = self._paging.missing_pages(sequence, tokens)
            if self._paging.extend(sequence, missing):
                self._door.extended(missing)
                return
            if sequence.in_flight:  # it may be over: nobody makes way for what may not be needed
                step.take_back(sequence.request.request_id)
                return
            loser = preemption_victim(
                self._victim_facts(one, now_s) for one in self.running.values()
            )
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
        self._door.left()
        sequence.preempted = True
        sequence.phase = Phase.WAITING

    def _victim_facts(self, sequence: Sequence, now_s: float) -> PreemptionCandidate:
        return PreemptionCandidate(
            sequence.request.request_id,
            self.line.urgency(now_s, sequence),
            sequence.output_tokens,
            sequence.prompt_tokens,
            sequence.serial,
        )
