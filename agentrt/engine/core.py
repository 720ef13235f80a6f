"""The embedded engine: requests in, one `StepDone` a step out. Synchronous, for one thread.

A step: end what is over, share out tokens, one forward over all of it, pick a token for each row
that wants one, tell. It knows nothing of processes, programs or sockets.
"""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError, InternalError, RequestRejected
from agentrt.base.ids import RequestId
from agentrt.engine.capabilities import capabilities_of
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.kv.hints import KvHints
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.request_checks import (
    check_ids,
    check_length,
    check_request,
    check_shortest,
    out_of_pages,
)
from agentrt.engine.runner.executor import ScheduledBatch, StepExecutor
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.engine.runner.scoring import Scorer, ready_to_score
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.scheduling.equal_steps import equal_steps
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.engine.sequence.stop_strings import StopStrings
from agentrt.engine.step import InFlightStep, StepRunner
from agentrt.kv_cache import PagePool
from agentrt.protocol.backend import GenerateRequest, HoleFill, KvHint, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import StepDone

_COMPILE_WAIT_S = 0.005
_DEADLINE_STEPS = 2.0
"""Outputs are closed this many steps before their deadline."""


class EngineCore:
    """Serves one model.

    Args:
        config: How it is set up.
        clock: Gives all instants in seconds.
        executor: Computes the steps; None loads the model that `config` names.

    Attributes:
        executor: Computes the steps.
        capabilities: Capabilities of the engine.
        codec: Codec of the model.
        paging: The KV pages, for observers.
        hints: KV hints of the runtime.

    Raises:
        ModelInvalid: The model directory cannot be loaded.
    """

    def __init__(
        self, config: EngineConfig, clock: Clock, executor: StepExecutor[Any] | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        self.executor = executor = executor or ModelExecutor(config, clock)
        self.codec = executor.codec
        windows = [size for size in (self.codec.window_tokens, executor.window_tokens) if size]
        self._window_tokens = min(windows, default=0)
        self.paging = KvAllocator(
            PagePool(executor.pages),
            config.page_tokens,
            executor.tables,
            config.max_running,
            executor.offload,
        )
        self.hints = KvHints(self.paging)
        self.scheduler = Scheduler(config, self.paging)
        self._grammars = executor.grammars
        self._outputs = StepOutputs(self.scheduler, executor.forget, self.paging)
        self._steps = StepRunner(executor, self.scheduler, self.paging, self._outputs, clock)
        self._scorer = Scorer(executor, self.paging, self.codec, config.step_tokens)
        self._scored_last = False
        self._ahead: InFlightStep | None = None
        self._serial = 0
        offload = executor.offload
        self.capabilities = capabilities_of(
            self.codec,
            executor.model,
            self._window_tokens,
            executor.pages * config.page_tokens,
            offload.tier.pool.total_pages * config.page_tokens if offload is not None else 0,
        )

    @property
    def forwards(self) -> int:
        """Forwards so far."""
        return self._steps.forwards + self._scorer.forwards

    @property
    def decode_forwards(self) -> int:
        """Forwards so far with at least one decoding sequence."""
        return self._steps.decode_forwards

    def submit(self, request: GenerateRequest) -> None:
        """Take a request; an error of it comes as its `End`."""
        now_s = self._clock.now_s()
        account = RequestMetrics(received_at_s=now_s, recorded_until_s=now_s)
        try:
            token_ids = check_request(request, self.executor.logits_size)
            if self.scheduler.find(request.request_id) is not None:
                raise InternalError(f"request {request.request_id} was submitted twice")
            info = self.scheduler.initial_info(request, now_s)
            self.scheduler.queue.check_info(info, now_s)
        except AgentrtError as error:
            self._outputs.refuse(request.request_id, error, account, now_s)
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
        self.scheduler.add_sequence(sequence)
        self._grammars.start_compile(request)
        if request.prompt.complete:
            self._complete(sequence, now_s)
        else:
            self._fits(sequence)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a prompt that was submitted incomplete; a request that is over is no error."""
        sequence = self.scheduler.find(request_id)
        if sequence is None:
            return
        try:
            if sequence.complete:
                raise RequestRejected(f"request {request_id} was filled after it was complete")
            check_ids(fill.token_ids, self.executor.logits_size)
        except AgentrtError as error:
            self._fail(sequence, error)
            return
        self.scheduler.extend_prompt(sequence, fill.token_ids)
        if fill.complete:
            self._complete(sequence, self._clock.now_s())
        else:
            self._fits(sequence)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests."""
        for info in updates:
            self.scheduler.update_info(info)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """End a request; what it computed stays in the tree. One that is over is no error."""
        sequence = self.scheduler.find(request_id)
        if sequence is not None:
            self._outputs.end(sequence, Finish("cancelled"), self._clock.now_s())

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """Apply a hint about a prefix."""
        self.hints.apply_hint(token_ids, hint, until_s, from_tokens, cache_salt)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None:
        """Compile constraints ahead, beside the steps; waits for them at most so long."""
        wait(self._grammars.prewarm(constraints), timeout=wait_s)

    def has_work(self) -> bool:
        """Whether `step` would do or tell anything."""
        return (
            self._ahead is not None
            or self._outputs.has_ends
            or self.scheduler.has_runnable
            or bool(self._grammars.pending_compiles(self.scheduler))
            or bool(ready_to_score(self.scheduler))
        )

    def step(self) -> StepDone | None:
        """One step; None when there was nothing to do or tell yet."""
        if (scored := self._score()) is not None:
            return scored
        step, self._ahead = self._ahead, None
        step = step or self.begin_step()
        if step is None:
            if self._outputs.has_ends:
                return self._outputs.take(None)
            wait(self._grammars.pending_compiles(self.scheduler), timeout=_COMPILE_WAIT_S)
            return None
        following = self._launch(ahead=True) if self.executor.overlaps else None
        (done,) = self.end_step(step)
        if following is not None:
            self._steps.draw(following)
            self._ahead = following
        return done

    def begin_step(self, most_steps: int = 1, spare_pages: int = 0) -> InFlightStep | None:
        """Plan a step and start to compute it; None when nothing can be computed.

        `step` is this and `end_step`. On virtual time the two fall on different instants, and
        requests arrive between them.

        Args:
            most_steps: Up to so many equal decode steps are computed at once, if the executor can
                do that and nothing can come between them. The results are those of single steps.
            spare_pages: With fewer free pages each change of them is told at once.
        """
        step = self._launch(ahead=False, most_steps=most_steps, spare_pages=spare_pages)
        if step is not None:
            self._steps.draw(step)
        return step

    def end_step(self, step: InFlightStep) -> list[StepDone]:
        """Wait for the tokens of a step, and tell them: one delivery a step."""
        return self._outputs.take_steps(self._steps.tell(step), step.admissions)

    def take_ends(self) -> StepDone | None:
        """Ends since the last step, or None."""
        return self._outputs.take(None) if self._outputs.has_ends else None

    def close(self) -> None:
        """Let go of threads. Idempotent."""
        self.executor.close()

    def _launch(
        self, *, ahead: bool, most_steps: int = 1, spare_pages: int = 0
    ) -> InFlightStep | None:
        """Plan a step and start to compute it."""
        self._settle(self._clock.now_s())
        began_s = self._clock.now_s()
        shares = self.scheduler.schedule(began_s)
        self._end_starved(began_s)
        if not shares:
            return None
        if most_steps > 1:
            scarce = self.paging.pool.free_pages < spare_pages
            news = scarce and self.paging.pool.free_pages != self._outputs.told_free_pages
            plain = self.executor.plain_steps
            equal = equal_steps(self.scheduler, self.paging, shares, plain, spare_pages)
            most_steps = 1 if news else min(most_steps, equal)
        waiting = self.scheduler.waiting_count
        step = self._steps.launch(ScheduledBatch(shares, began_s, waiting, ahead, most_steps))
        step.admissions = self.scheduler.queue.take_admissions()
        return step

    def _complete(self, sequence: Sequence, now_s: float) -> None:
        """Queue a sequence with a complete prompt, or let it wait for its grammar."""
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
            self._tokenize_options(sequence)
        elif self._grammars.is_pending(sequence):
            self._attach_grammar(sequence, now_s)
        elif sequence.request.thinking_tokens is not None:
            self._attach_reasoning(sequence, now_s)
        elif (finish := sequence_output.resume_output(sequence)) is not None:
            self._outputs.end(sequence, finish, now_s)

    def _attach_reasoning(self, sequence: Sequence, now_s: float) -> None:
        """Let an unconstrained sequence reason within its frame and limit."""
        try:
            finish = self._grammars.attach_reasoning(sequence, self._window_tokens)
        except AgentrtError as error:
            self._fail(sequence, error)
            return
        if finish is not None:
            self._outputs.end(sequence, finish, now_s)

    def _tokenize_options(self, sequence: Sequence) -> None:
        """Tokenize the options that are to be scored."""
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
        ready = [] if self._scored_last else ready_to_score(self.scheduler)
        self._scored_last = bool(ready)
        if not ready:
            return None
        began_s = self._clock.now_s()
        try:
            served = self._scorer.score_options(ready)
        except Exception as error:  # of these alone; the others go on
            for sequence in ready:
                self._fail(sequence, error)
            return self._outputs.take(None)
        if not served:
            return None
        record = self._steps.tell_scored(served, began_s, self._clock.now_s())
        for sequence in served:
            if (finish := sequence_output.choose_option(sequence)) is not None:
                self._outputs.end(sequence, finish, record.ended_at_s)
        return self._outputs.take(record)

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

    def _attach_grammar(self, sequence: Sequence, now_s: float) -> None:
        """Give the sequence its compiled constraint, or let it wait alone until there is one."""
        if not self._grammars.is_compiled(sequence):
            if sequence.phase is Phase.RUNNING:
                self.scheduler.hold(sequence)
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
            self._outputs.end(sequence, finish, now_s)

    def _settle(self, now_s: float) -> None:
        """Hints that end, grammars that are ready, outputs to be closed for their deadline."""
        self.hints.update(now_s)
        soon_s = now_s + _DEADLINE_STEPS * self._steps.step_s
        for sequence in self.scheduler:
            if sequence.phase is Phase.COMPILING:
                self._attach_grammar(sequence, now_s)
            deadline = sequence.info.deadline_at_s
            if deadline is not None and deadline <= soon_s and sequence.complete:
                self._close_in_time(sequence, now_s)

    def _close_in_time(self, sequence: Sequence, now_s: float) -> None:
        """Close the output of a sequence near its deadline, if that is wanted and possible."""
        request = sequence.request
        if request.on_limit != "close" or sequence.phase is Phase.COMPILING:
            return
        if request.scored or self.scheduler.find(request.request_id) is not sequence:
            return  # no forward is spared by ending it otherwise, or it has just ended
        if sequence.grammar is None or sequence.grammar.can_close:
            self._outputs.end(sequence, sequence_output.close_output(sequence), now_s)

    def _end_starved(self, now_s: float) -> None:
        total = self.paging.pool.total_pages
        for sequence in self.scheduler.unschedulable:
            wanted = -(-(len(sequence.tokens) + 1) // self._config.page_tokens)
            self._fail(sequence, out_of_pages(wanted, total))
        self.scheduler.unschedulable.clear()

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._outputs.fail(sequence, error, self._clock.now_s())
