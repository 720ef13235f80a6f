"""The embedded engine: requests in, one `StepDone` a step out. Synchronous, for one thread.

A step: end what is over, share out tokens, one forward over all of it, pick a token for each row
that wants one, tell. It knows nothing of processes, programs or sockets.
"""

from __future__ import annotations

from concurrent.futures import wait

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError, InternalError, RequestRejected
from agentrt.base.ids import RequestId
from agentrt.engine.capabilities import capabilities_of
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.kv.hints import KvHints
from agentrt.engine.kv.offload import open_offload
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.request_checks import (
    check_ids,
    check_length,
    check_request,
    check_shortest,
    out_of_pages,
)
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.runner.scoring import Scorer, ready_to_score
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.grammar_requests import GrammarRequests
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.sampling.token_sampler import TokenSampler
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.engine.sequence.stop_strings import StopStrings
from agentrt.engine.step import Flight, Steps
from agentrt.kv_cache import PagePool
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, HoleFill, KvHint, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import StepDone

TILE_TOKENS = 4096
_COMPILE_WAIT_S = 0.005
_DEADLINE_STEPS = 2.0
"""Outputs are closed this many steps before their deadline."""


class EngineCore:
    """Serves one model.

    Args:
        config: How it is set up.
        clock: Of all instants it tells.
        tile_tokens: Most tokens of KV that attention reads at once.
        machine: What computes, where it is not to be made from `config`.

    Attributes:
        capabilities: What it can do.
        report: What its model runs on, and why.
        threads: How many compute, and why.
        codec: Of its model.
        paging: Its pages, for those who watch.

    Raises:
        ModelInvalid: The model directory cannot be loaded.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        *,
        tile_tokens: int = TILE_TOKENS,
        machine: ModelRunner | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self.codec = Codec.load(config.model_path)
        self._machine = machine or ModelRunner(config, tile_tokens)
        model = self._machine.model
        vocab = self.codec.vocab
        self._logits_size = model.logits_size
        windows = [tokens for tokens in (self.codec.window_tokens, model.window_tokens) if tokens]
        self._window_tokens = min(windows, default=0)
        self._decoder = TokenSampler(
            frozenset(vocab.eos_ids),
            frozenset(vocab.special_ids.values()),
            used_ids=vocab.size,
            logits_size=model.logits_size,
            kernels=model.kernels,
        )
        kv = self._machine.kv
        host = open_offload(config, kv, model.kernels, clock)
        self._machine.kv_arrival = host.copier if host is not None else None
        self.paging = KvAllocator(
            PagePool(kv.pages), config.page_tokens, self._machine.tables, config.max_running, host
        )
        self._hints = KvHints(self.paging)
        self._roster = Scheduler(config, self.paging)
        on_cuda = model.layout.device.type == "cuda"
        self._overlaps = config.overlap == "on" or (config.overlap == "auto" and on_cuda)
        # A step that is launched before the last is told would not know which guesses were right.
        drafts = config.jump_forward and not self._overlaps
        self._grammars = GrammarRequests(
            self.codec, jump_forward=config.jump_forward, drafts=drafts
        )
        self._outbox = StepOutputs(self._roster, self._grammars, self.paging)
        self._steps = Steps(
            self._machine,
            self._decoder,
            self._roster,
            self.paging,
            self._outbox,
            clock,
            host.rates if host is not None else None,
            step_tokens=config.step_tokens,
            overlaps=self._overlaps,
        )
        self._scorer = Scorer(self._machine, self.paging, self.codec, config.step_tokens)
        self._scored_last = False
        self._flight: Flight | None = None
        self._serial = 0
        self.report = model.report
        self.threads = self._machine.threads
        self.capabilities = capabilities_of(
            self.codec,
            model.name,
            self._window_tokens,
            kv.pages * config.page_tokens,
            host.tier.pool.total_pages * config.page_tokens if host is not None else 0,
        )

    @property
    def forwards(self) -> int:
        """Forwards so far."""
        return self._steps.forwards + self._scorer.forwards

    @property
    def decode_forwards(self) -> int:
        """Of those, with at least one sequence past its prompt."""
        return self._steps.decode_forwards

    def submit(self, request: GenerateRequest) -> None:
        """Take a request; what is wrong with it comes as its `End`."""
        now_s = self._clock.now_s()
        account = RequestMetrics(received_at_s=now_s, recorded_until_s=now_s)
        try:
            token_ids = check_request(request, self._logits_size)
            if self._roster.find(request.request_id) is not None:
                raise InternalError(f"request {request.request_id} was submitted twice")
            info = self._roster.initial_info(request, now_s)
            self._roster.queue.check_info(info, now_s)
        except AgentrtError as error:
            self._outbox.refuse(request.request_id, error, account, now_s)
            return
        assert isinstance(request.prompt, TokenPrompt)
        sequence = Sequence(
            request=request,
            serial=self._serial,
            info=info,
            tokens=list(token_ids),
            prompt_tokens=len(token_ids),
            complete=False,
            metrics=account,
            detokenizer=self.codec.detokenizer(keep_special=request.keep_special),
            stops=StopStrings(request.sampling.stop),
        )
        self._serial += 1
        self._roster.add_sequence(sequence)
        self._grammars.start_compile(request)
        if request.prompt.complete:
            self._complete(sequence, now_s)
        else:
            self._fits(sequence)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a prompt that was submitted incomplete; a request that is over is no error."""
        sequence = self._roster.find(request_id)
        if sequence is None:
            return
        try:
            if sequence.complete:
                raise RequestRejected(f"request {request_id} was filled after it was complete")
            check_ids(fill.token_ids, self._logits_size)
        except AgentrtError as error:
            self._fail(sequence, error)
            return
        self._roster.extend_prompt(sequence, fill.token_ids)
        if fill.complete:
            self._complete(sequence, self._clock.now_s())
        else:
            self._fits(sequence)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """What the order of waiting work depends on has changed."""
        for info in updates:
            self._roster.update_info(info)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """End a request; what it computed stays in the tree. One that is over is no error."""
        sequence = self._roster.find(request_id)
        if sequence is not None:
            self._outbox.end(sequence, Finish("cancelled"), self._clock.now_s())

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """Say what will become of a prefix."""
        self._hints.apply_hint(token_ids, hint, until_s, from_tokens, cache_salt)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None:
        """Compile what will be asked for, aside from all steps; waits for it at most so long."""
        wait(self._grammars.prewarm(constraints), timeout=wait_s)

    def has_work(self) -> bool:
        """Whether `step` would do or tell anything."""
        return (
            self._flight is not None
            or self._outbox.has_ends
            or self._roster.has_runnable
            or bool(self._grammars.pending_compiles(self._roster))
            or bool(ready_to_score(self._roster))
        )

    def step(self) -> StepDone | None:
        """One step; None when there was nothing to do or tell yet."""
        if (scored := self._score()) is not None:
            return scored
        flight, self._flight = self._flight, None
        if flight is None:
            flight = self._launch(ahead=False)
            if flight is not None:
                self._steps.draw(flight)
        if flight is None:
            if self._outbox.has_ends:
                return self._outbox.take(None)
            wait(self._grammars.pending_compiles(self._roster), timeout=_COMPILE_WAIT_S)
            return None
        following = self._launch(ahead=True) if self._overlaps else None
        record = self._steps.tell(flight)
        if following is not None:
            self._steps.draw(following)
            self._flight = following
        return self._outbox.take(record, flight.admissions)

    def close(self) -> None:
        """Let go of threads. Idempotent."""
        self._grammars.close()
        self._decoder.close()

    def _launch(self, *, ahead: bool) -> Flight | None:
        """Plan a step and start its forward; None when nothing can be computed."""
        self._settle(self._clock.now_s())
        began_s = self._clock.now_s()
        shares = self._roster.schedule(began_s)
        self._end_starved(began_s)
        if not shares:
            return None
        flight = self._steps.launch(shares, began_s, ahead=ahead)
        flight.admissions = self._roster.queue.take_admissions()
        return flight

    def _complete(self, sequence: Sequence, now_s: float) -> None:
        """The prompt is whole: from here it queues, or waits for its grammar."""
        if sequence.phase is not Phase.RUNNING:
            sequence.metrics.record_until("hole", now_s)
        sequence.metrics.completed_at_s = now_s
        sequence.complete = True
        most = sequence.request.sampling.max_tokens
        if self._window_tokens:
            most = min(most, self._window_tokens - sequence.prompt_tokens)
        sequence.max_output_tokens = most
        if not self._fits(sequence):
            return
        if sequence.request.scored:
            self._take_options(sequence)
        elif self._grammars.is_pending(sequence):
            self._take_guide(sequence, now_s)
        elif sequence.request.thinking_tokens is not None:
            self._let_think(sequence, now_s)

    def _let_think(self, sequence: Sequence, now_s: float) -> None:
        """Its answer is free, its thought has a frame and an end."""
        try:
            finish = self._grammars.attach_reasoning(sequence, self._window_tokens)
        except AgentrtError as error:
            self._fail(sequence, error)
            return
        if finish is not None:
            self._outbox.end(sequence, finish, now_s)

    def _take_options(self, sequence: Sequence) -> None:
        """Spell what is to be scored."""
        try:
            longest_tokens = self._scorer.tokenize_options(sequence)
            check_shortest(sequence.prompt_tokens, longest_tokens, self._window_tokens)
            total = self.paging.pool.total_pages
            wanted = -(-(sequence.prompt_tokens + longest_tokens + 1) // self._config.page_tokens)
            if wanted > total:
                raise out_of_pages(wanted, total)
        except AgentrtError as error:
            self._fail(sequence, error)

    def _score(self) -> StepDone | None:
        """Score what is ready, every other step at most: the others go on, too."""
        ready = [] if self._scored_last else ready_to_score(self._roster)
        self._scored_last = bool(ready)
        if not ready:
            return None
        began_s = self._clock.now_s()
        try:
            served = self._scorer.score_options(ready)
        except Exception as error:  # of these alone; the others go on
            for sequence in ready:
                self._fail(sequence, error)
            return self._outbox.take(None)
        if not served:
            return None
        record = self._steps.tell_scored(served, began_s, self._clock.now_s())
        for sequence in served:
            if (finish := sequence_output.choose_option(sequence)) is not None:
                self._outbox.end(sequence, finish, record.ended_at_s)
        return self._outbox.take(record)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether what is known of the prompt can be served; else the request is over."""
        try:
            check_length(
                sequence.prompt_tokens,
                complete=sequence.complete,
                window_tokens=self._window_tokens,
                page_tokens=self._config.page_tokens,
                total_pages=self.paging.pool.total_pages,
            )
        except AgentrtError as error:
            self._fail(sequence, error)
            return False
        return True

    def _take_guide(self, sequence: Sequence, now_s: float) -> None:
        """Give the sequence its compiled constraint, or let it wait alone until there is one."""
        if not self._grammars.is_compiled(sequence):
            if sequence.phase is Phase.RUNNING:
                self._roster.hold(sequence)
            sequence.phase = Phase.COMPILING
            return
        if sequence.phase is Phase.COMPILING:
            sequence.metrics.record_until("constraint", now_s)
            sequence.phase = Phase.WAITING
        opened_at_s = self._clock.now_s()
        try:
            finish = self._grammars.attach_grammar(sequence, self._window_tokens)
        except Exception as error:  # whatever a compiler raises is the matter of this request alone
            self._fail(sequence, error)
            return
        now_s = self._clock.now_s()
        sequence.metrics.record_seconds("constraint", now_s - opened_at_s)
        if finish is not None:
            self._outbox.end(sequence, finish, now_s)

    def _settle(self, now_s: float) -> None:
        """Hints that end, grammars that are ready, outputs to be closed for their deadline."""
        self._hints.update(now_s)
        soon_s = now_s + _DEADLINE_STEPS * self._steps.step_s
        for sequence in self._roster:
            if sequence.phase is Phase.COMPILING:
                self._take_guide(sequence, now_s)
            deadline = sequence.info.deadline_at_s
            if deadline is not None and deadline <= soon_s and sequence.complete:
                self._close_in_time(sequence, now_s)

    def _close_in_time(self, sequence: Sequence, now_s: float) -> None:
        """Its deadline is near: its output is closed, where that is wanted and possible."""
        request = sequence.request
        if request.on_limit != "close" or sequence.phase is Phase.COMPILING:
            return
        if request.scored or self._roster.find(request.request_id) is not sequence:
            return  # no forward is spared by ending it otherwise, or it has just ended
        if sequence.grammar is None or sequence.grammar.can_close:
            self._outbox.end(sequence, sequence_output.close_output(sequence), now_s)

    def _end_starved(self, now_s: float) -> None:
        total = self.paging.pool.total_pages
        for sequence in self._roster.unschedulable:
            wanted = -(-(len(sequence.tokens) + 1) // self._config.page_tokens)
            self._fail(sequence, out_of_pages(wanted, total))
        self._roster.unschedulable.clear()

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._outbox.fail(sequence, error, self._clock.now_s())
