"""An engine in virtual time: the real order, pages, tree and hints, and a formula for the forward.

It is `agentrt.engine.core` without tensors. Who runs, who waits, who makes way, what is shared and
what is evicted is decided by the very code that serves requests; only the tokens are invented and
the time of a step is computed.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.config import EngineConfig
from agentrt.base.ids import PageId, RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.kv.hints import KvHints
from agentrt.engine.request_checks import out_of_pages
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.engine.sequence.stop_strings import StopStrings
from agentrt.kv_cache import PagePool
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.flight import Flight, Landing
from agentrt.lab.sim.host_tier import virtual_host
from agentrt.lab.sim.output import Output
from agentrt.prompt import Detokenizer
from agentrt.protocol.backend import GenerateRequest, HoleFill, KvHint, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import End, FinishReason, StepDone, StepRecord

NO_END_S = float("inf")


class NoTables:
    """Block tables where nothing reads them."""

    def write(self, slot: int, at: int, pages: list[PageId]) -> None:
        """Nothing to set."""


class VirtualEngine:
    """Serves requests whose outputs are given.

    Attributes:
        host: Its tier below, or None.
        copied_s: Seconds that copies between device and host took so far.
        unread_tokens: Of the prompts of requests that were cancelled, those never computed.
        unheard_tokens: Drawn in the step in which their request was cancelled.

    Args:
        config: As of a real one; `kv_pages` must be set.
        costs: Of its steps and copies; others hold for what begins after they were set.
        leaps: Whether equal decode steps are taken at once where nothing can come between; what
            comes out is the same.
        watched_pages: Somebody acts when that few pages are free: below, each is told.
    """

    def __init__(
        self, config: EngineConfig, costs: SimCosts, *, leaps: bool = True, watched_pages: int = 0
    ) -> None:
        self._config = config
        self._costs = costs
        self._leaps = leaps
        self._watched_pages = watched_pages
        self.host = virtual_host(config, costs)
        self.paging = KvAllocator(
            PagePool(config.kv_pages), config.page_tokens, NoTables(), config.max_running, self.host
        )
        self.roster = Scheduler(config, self.paging)
        self._hints = KvHints(self.paging)
        self._outputs: dict[RequestId, Output] = {}
        self._ends: list[End] = []
        self._serial = 0
        self._steps = 0
        self._ready_at_s = 0.0
        self._is_flying = False
        self.copied_s = 0.0
        self.unread_tokens = 0
        self.unheard_tokens = 0

    @property
    def costs(self) -> SimCosts:
        """Of what begins from now on."""
        return self._costs

    @costs.setter
    def costs(self, costs: SimCosts) -> None:
        self._costs = costs
        if self.host is not None:
            self.host.copier.costs = costs

    @property
    def copied_tokens(self) -> tuple[int, int]:
        """Copied to the host so far, and back."""
        if self.host is None:
            return 0, 0
        tier, size = self.host.tier, self._config.page_tokens
        return tier.saved_pages * size, tier.loaded_pages * size

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._steps

    def submit(self, request: GenerateRequest, output: Output, now_s: float) -> None:
        """Take a request whose output is known."""
        assert isinstance(request.prompt, TokenPrompt)
        token_ids = request.prompt.token_ids
        sequence = Sequence(
            request=request,
            serial=self._serial,
            info=self.roster.initial_info(request, now_s),
            tokens=list(token_ids),
            prompt_tokens=len(token_ids),
            complete=False,
            metrics=RequestMetrics(received_at_s=now_s, recorded_until_s=now_s),
            detokenizer=Detokenizer(()),
            stops=StopStrings(()),
        )
        self._serial += 1
        self._outputs[request.request_id] = output
        self.roster.add_sequence(sequence)
        if request.prompt.complete:
            self._complete(sequence, now_s)

    def fill_hole(self, request_id: RequestId, fill: HoleFill, now_s: float) -> None:
        """Append to a prompt that was submitted incomplete."""
        sequence = self.roster.find(request_id)
        if sequence is None:
            return
        self.roster.extend_prompt(sequence, fill.token_ids)
        if fill.complete:
            self._complete(sequence, now_s)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """What the order of waiting work depends on has changed."""
        for info in updates:
            self.roster.update_info(info)

    def cancel(self, request_id: RequestId, now_s: float) -> None:
        """End a request; what it computed stays in the tree."""
        sequence = self.roster.find(request_id)
        if sequence is not None:
            known = max(sequence.reached_tokens, sequence.computed_tokens)
            self.unread_tokens += max(0, sequence.prompt_tokens - known)
            self._end(sequence, "cancelled", now_s)

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None,
        from_tokens: int = 0,
        *,
        now_s: float,
    ) -> None:
        """Say what will become of a prefix; what is copied for it holds up the next step."""
        self._hints.apply_hint(token_ids, hint, until_s, from_tokens)
        if self.host is not None and not self._is_flying:
            self._ready_at_s = max(now_s, self._ready_at_s) + self._take_copies()

    def watch(self, request_id: RequestId, marks: tuple[int, ...]) -> None:
        """Somebody else looks at an output, at these lengths; one that is over is no error."""
        sequence = self.roster.find(request_id)
        if sequence is not None:
            self._outputs[request_id].watch(marks, sequence.output_tokens)

    def take_ends(self) -> StepDone | None:
        """Ends outside a step, where there are any."""
        return self._done(None) if self._ends else None

    def launch(self, now_s: float, until_s: float = NO_END_S) -> Flight | None:
        """Plan a step and start it; None when there is nothing to compute.

        Args:
            now_s: When.
            until_s: Before that instant nobody submits, fills or cancels.

        Raises:
            OutOfPages: A request does not fit the memory even when it is alone.
        """
        self._hints.update(now_s)
        shares = self.roster.schedule(now_s)
        for sequence in self.roster.unschedulable:
            wanted = -(-(len(sequence.tokens) + 1) // self._config.page_tokens)
            raise out_of_pages(wanted, self.paging.pool.total_pages)
        if not shares:
            return None
        decodes = [one.computed_tokens >= one.prompt_tokens for one, _ in shares]
        work = self._work(shares, decodes)
        copied_s = self._take_copies() if self.host is not None else 0.0
        steps = self._equal_steps(shares, decodes) if self._leaps else 1
        records = self._records(shares, work, now_s, copied_s, steps, until_s)
        if len(records) == 1:
            self._advance(shares, decodes)
        else:
            self._make_room(shares, len(records))
        self._is_flying = True
        return Flight(records, work, shares, decodes)

    def land(self, flight: Flight) -> Landing:
        """The steps are over: their tokens are there."""
        steps = len(flight.records)
        if steps > 1:
            for sequence, _ in flight.members:
                sequence.computed_tokens += steps
                sequence.reached_tokens = max(sequence.reached_tokens, sequence.computed_tokens)
        now_s = flight.ended_at_s
        self._is_flying = False
        self._ready_at_s = now_s + self._costs.gap_of(len(flight.members))
        if self.host is not None:  # hints that came meanwhile are obeyed now
            self._ready_at_s += self._take_copies()
        landing = Landing([])
        over: list[Sequence] = []
        page_tokens = self.paging.page_tokens
        batch = len(flight.members)
        for (sequence, _), decoded in zip(flight.members, flight.decodes, strict=True):
            if self.roster.find(sequence.request.request_id) is not sequence:
                self.unheard_tokens += steps * decoded
                continue
            account = sequence.metrics
            account.record_step("decode" if decoded else "prefill", now_s, 0.0, batch)
            account.steps += steps - 1
            account.batch_size_sum += batch * (steps - 1)
            if not sequence.complete:
                if not sequence.pending_tokens(page_tokens):
                    self.roster.hold(sequence)
                continue
            if sequence.computed_tokens < len(sequence.tokens) and steps == 1:
                continue
            output = self._outputs[sequence.request.request_id]
            output.append_to(sequence.tokens, sequence.prompt_tokens, steps)
            produced = sequence.output_tokens
            if account.first_token_at_s == 0.0:
                account.first_token_at_s = now_s
            landing.grown.append((sequence.request.request_id, produced))
            if produced >= sequence.max_output_tokens:
                over.append(sequence)
        for sequence in over:
            self._end(sequence, "length", now_s)
        if not any(flight.decodes):
            record = flight.records[0]
            took_s = record.ended_at_s - record.started_at_s
            self.roster.queue.note_prefill(record.prefill_tokens, took_s)
            if self.host is not None:
                self.host.rates.note_prefill(record.prefill_tokens, took_s)
        landing.steps = [self._done(record) for record in flight.records]
        return landing

    def _complete(self, sequence: Sequence, now_s: float) -> None:
        if sequence.phase is not Phase.RUNNING:
            sequence.metrics.record_until("hole", now_s)
        sequence.metrics.completed_at_s = now_s
        sequence.complete = True
        sequence.max_output_tokens = sequence.request.sampling.max_tokens

    def _end(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        account = sequence.metrics
        account.record_until(sequence.time_bucket, now_s)
        self.roster.remove_sequence(sequence)
        request_id = sequence.request.request_id
        output = self._outputs.pop(request_id)
        account.forced_tokens = output.forced_tokens
        ledger = account.to_ledger(
            now_s, prompt_tokens=sequence.prompt_tokens, output_tokens=sequence.output_tokens
        )
        self._ends.append(End(request_id, reason, ledger))

    def _done(self, record: StepRecord | None) -> StepDone:
        last = record is None or record.index == self._steps - 1
        ends: tuple[End, ...] = ()
        if last:
            ends, self._ends = tuple(self._ends), []
        return StepDone(
            step=record,
            deltas=(),
            ends=ends,
            free_pages=self.paging.pool.free_pages,
            evictable_pages=self.paging.tree.evictable_pages,
            admissions=self.roster.queue.take_admissions() if last else (),
        )

    def _advance(self, shares: list[ScheduledSequence], decodes: list[bool]) -> None:
        """From here the tokens of the step count as computed, as in a real one."""
        for (sequence, count), decoded in zip(shares, decodes, strict=True):
            reached = sequence.computed_tokens + count
            sequence.computed_tokens = reached
            if reached > sequence.reached_tokens:
                sequence.reached_tokens = reached
            if not decoded:
                self.paging.cache_prefix(sequence)

    def _take_copies(self) -> float:
        """What copies took since they were asked for last."""
        assert self.host is not None
        took_s = self.host.copier.take_s()
        self.copied_s += took_s
        return took_s

    def _records(
        self,
        shares: list[ScheduledSequence],
        work: StepWork,
        now_s: float,
        copied_s: float,
        most: int,
        until_s: float,
    ) -> list[StepRecord]:
        """Of one step and those equal to it that end before `until_s`; the first makes copies."""
        batch = len(shares)
        requests = tuple(one.request.request_id for one, _ in shares)
        gap_s = self._costs.gap_of(batch)
        records: list[StepRecord] = []
        now_s = max(now_s, self._ready_at_s)
        while True:
            ended_s = now_s + copied_s + self._costs.of(work)
            if records and ended_s >= until_s:
                return records
            records.append(
                StepRecord(
                    self._steps,
                    now_s,
                    ended_s,
                    work.prefill_tokens,
                    work.decode_tokens,
                    requests,
                    work.kv_tokens,
                    work.waiting,
                )
            )
            self._steps += 1
            if len(records) == most:
                return records
            now_s, copied_s = ended_s + gap_s, 0.0
            # Everybody is one longer.
            work = replace(work, decode_tokens=batch, kv_tokens=work.kv_tokens + batch)

    def _equal_steps(self, shares: list[ScheduledSequence], decodes: list[bool]) -> int:
        """How many steps with these shares may follow each other if nobody says anything.

        Each must decode one token of everybody, with nobody near an end or an item that is waited
        for, without eviction, and with nobody waiting.
        """
        if not all(decodes):
            return 1
        if len(self.roster) > len(shares) and any(
            one.phase is Phase.WAITING for one in self.roster
        ):
            return 1  # their order may change from step to step
        steps = 1 << 30
        for sequence, count in shares:
            if count != 1 or sequence.deadline_at_s is not None:
                return 1
            output = self._outputs[sequence.request.request_id]
            steps = min(steps, output.plain_steps(sequence.output_tokens))
            if steps <= 1:
                return 1
        free = self.paging.pool.free_pages
        spare = max(0, free - self._watched_pages)
        while steps > 1 and self._new_pages(shares, steps) > spare:
            steps //= 2
        return max(1, steps)

    def _new_pages(self, shares: list[ScheduledSequence], steps: int) -> int:
        missing = self.paging.missing_pages
        return sum(missing(sequence, steps) for sequence, _ in shares)

    def _make_room(self, shares: list[ScheduledSequence], steps: int) -> None:
        for sequence, _ in shares:
            self.paging.extend(sequence, self.paging.missing_pages(sequence, steps))

    def _work(self, shares: list[ScheduledSequence], decodes: list[bool]) -> StepWork:
        """As the engine counts: a sequence decodes when the step gives it a token."""
        prefill_tokens = decode_tokens = kv_tokens = formed = 0
        pairs = 0.0
        for (sequence, count), decoded in zip(shares, decodes, strict=True):
            done = sequence.computed_tokens
            kv_tokens += done + count
            draws = sequence.complete and done + count == len(sequence.tokens)
            decode_tokens += draws
            formed += draws and self._outputs[sequence.request.request_id].formed
            if not decoded:
                prefill_tokens += count
                pairs += count * (done + count / 2)
            elif count > 1:  # forced tokens, or those of an output that lost its pages
                prefill_tokens += count - 1
                pairs += (count - 1) * (done + count / 2)
        waiting = self.roster.waiting_count
        return StepWork(prefill_tokens, decode_tokens, kv_tokens, pairs, formed, waiting)
