"""The embedded engine: requests in, one `StepDone` a step out. Synchronous, for one thread.

A step schedules tokens, runs one forward over all of them, samples a token for each row that needs
one, and collects the output. It knows nothing of processes, programs or sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import InternalError, RequestRejected
from agentrt.base.ids import RequestId
from agentrt.engine.capabilities import capabilities_of
from agentrt.engine.drafts.drafter import Drafter
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.kv.hints import KvHints
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.request_checks import (
    check_ids,
    check_length,
    check_no_holes,
    check_options,
    check_pages,
    check_request,
    number_of_adapter,
    out_of_pages,
)
from agentrt.engine.runner.executor import StepExecutor
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.engine.runner.scoring import Scorer
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.scheduling.equal_steps import equal_steps
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.engine.step.scored_steps import ScoredSteps
from agentrt.engine.step.step_runner import InFlightStep, StepRunner
from agentrt.kv_cache import PagePool, kv_salt
from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.backend import (
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import StepDone

_COMPILE_WAIT_S = 0.005
_DEADLINE_STEPS = 2.0
"""Outputs are closed this many steps before their deadline."""


class EngineCore:
    """Serves one model.

    Args:
        config: Config of the engine.
        clock: Clock of all instants.
        executor: Computes the steps; None loads the model that `config` names.

    Attributes:
        executor: Computes the steps.
        capabilities: Capabilities of the engine.
        codec: Codec of the model.
        allocator: Allocator of the KV pages.
        hints: KV hints of the runtime.
        on_launch: Called with the prompt tokens of each step that is about to be computed, or None.

    Raises:
        ModelInvalid: The model directory cannot be loaded.
    """

    def __init__(
        self, config: EngineConfig, clock: Clock, executor: StepExecutor[Any] | None = None
    ) -> None:
        self._config = config = config.sized()
        self._clock = clock
        self.executor = executor = executor or ModelExecutor(config, clock)
        self.codec = executor.codec
        windows = [size for size in (self.codec.window_tokens, executor.window_tokens) if size]
        self._window_tokens = min(windows, default=0)
        draft_model = executor.draft_model
        self.allocator = KvAllocator(
            PagePool(executor.pages),
            config.page_tokens,
            executor.tables,
            executor.copy_page,
            config.max_running,
            executor.offload,
            on_allocate=None if draft_model is None else draft_model.clear,
        )
        self.hints = KvHints(self.allocator)
        self.scheduler = Scheduler(config, self.allocator, executor.rope_threshold)
        self._grammars = executor.grammars
        drafter = Drafter(config, self.allocator, clock, draft_model)
        forget = (executor.forget, drafter.forget)
        self._outputs = outputs = StepOutputs(self.scheduler, forget, self.allocator)
        self._steps = StepRunner(executor, self.scheduler, self.allocator, outputs, clock, drafter)
        self._scorer = Scorer(executor, self.allocator, self.codec, config.step_tokens)
        self._scored = ScoredSteps(self._scorer, self.scheduler, self._steps, outputs, clock)
        self._next_step: InFlightStep | None = None
        self._serial = 0
        self.on_launch: Callable[[int], None] | None = None
        offload = executor.offload
        self.capabilities = capabilities_of(
            self.codec,
            executor.model,
            self._window_tokens,
            config,
            executor.pages,
            offload.tier.pool.total_pages if offload is not None else 0,
            executor.page_bytes,
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
        """Add a request; an invalid one ends with its error."""
        now_s = self._clock.now_s()
        metrics = RequestMetrics(received_at_s=now_s, recorded_until_s=now_s)
        try:
            token_ids = check_request(request, self.executor.logits_size)
            if self.scheduler.find(request.request_id) is not None:
                raise InternalError(f"request {request.request_id} was submitted twice")
            info = self.scheduler.initial_info(request, now_s)
            self.scheduler.queue.check_info(info, now_s)
            shares = self._config.share_prefixes
            salt = kv_salt(request.cache_salt, request.adapter)
            sequence = Sequence(
                request=request,
                serial=self._serial,
                info=info,
                tokens=list(token_ids),
                prompt_tokens=len(token_ids),
                complete=False,
                metrics=metrics,
                detokenizer=self.codec.detokenizer(keep_special=request.keep_special),
                stops=StopStrings(request.sampling.stop),
                salt=salt if shares else f"{salt}\0{self._serial}",
                adapter=number_of_adapter(request, self._config),
            )
        except Exception as error:  # refuses this request only
            self._outputs.refuse(request.request_id, error, metrics, now_s)
            return
        assert isinstance(request.prompt, TokenPrompt)
        self._serial += 1
        self.scheduler.add_sequence(sequence)
        with self._failing(sequence):
            self._grammars.start_compile(sequence, self._window_tokens)
            self._check_prompt(sequence, now_s, complete=request.prompt.complete)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a request that was submitted incomplete; one that is over is no error."""
        sequence = self.scheduler.find(request_id)
        if sequence is None:
            return
        with self._failing(sequence):
            if sequence.complete or sequence.compiling or sequence.request.ahead:
                raise RequestRejected(f"request {request_id} was filled after it was complete")
            check_ids(fill.token_ids, self.executor.logits_size)
            if fill.constraint is not None:
                sequence.request = replace(sequence.request, constraint=fill.constraint)
            check_no_holes(sequence.request.constraint, complete=fill.complete)
            self.scheduler.extend_prompt(sequence, fill.token_ids)
            if fill.constraint is not None:
                self._grammars.start_compile(sequence, self._window_tokens)
            self._check_prompt(sequence, self._clock.now_s(), complete=fill.complete)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests; one that is over is no error."""
        now_s = self._clock.now_s()
        for info in updates:
            if (sequence := self.scheduler.find(info.request_id)) is not None:
                with self._failing(sequence):
                    self.scheduler.queue.check_info(info, now_s)
                    self.scheduler.update_info(info)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Abort a request; what it computed stays in the tree. One that is over is no error."""
        sequence = self.scheduler.find(request_id)
        if sequence is not None:
            self._outputs.end(sequence, Finish("cancelled"), self._clock.now_s())

    def hint(self, hint: PrefixHint) -> None:
        """Apply a hint about a prefix."""
        self.hints.apply_hint(hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None:
        """Compile constraints ahead, beside the steps; waits for them at most so long."""
        wait(self._grammars.prewarm(constraints), timeout=wait_s)

    def has_work(self) -> bool:
        """Whether `step` would compute anything or return any output."""
        return bool(
            self._next_step is not None
            or self._outputs.has_ends
            or self.scheduler.has_runnable
            or self._grammars.pending_compiles(self.scheduler)
            or self._scored.has_work
        )

    def step(self) -> StepDone | None:
        """One step; None if there is nothing to compute and no output yet."""
        if (scored := self._scored.step()) is not None:
            return scored
        step, self._next_step = self._next_step or self.begin_step(), None
        if step is None:
            if (ends := self.take_ends()) is None:
                wait(self._grammars.pending_compiles(self.scheduler), timeout=_COMPILE_WAIT_S)
            return ends
        next_step = self._launch_step(before_tokens=True) if self._steps.may_overlap(step) else None
        (done,) = self.end_step(step)
        if next_step is not None:
            self._steps.sample(next_step)
            self._next_step = next_step
        return done

    def begin_step(self, max_steps: int = 1, spare_pages: int = 0) -> InFlightStep | None:
        """Schedule a step and start to compute it; None if nothing can be computed.

        `step` is this and `end_step`. On virtual time the two happen at different instants, and
        requests arrive between them.

        Args:
            max_steps: Up to so many equal decode steps are computed at once, if the executor can
                do that and nothing can come between them. The results are those of single steps.
            spare_pages: With fewer free pages each change of them is reported at once.
        """
        step = self._launch_step(before_tokens=False, max_steps=max_steps, spare_pages=spare_pages)
        if step is not None:
            self._steps.sample(step)
        return step

    def end_step(self, step: InFlightStep) -> list[StepDone]:
        """Wait for the tokens of a step; one `StepDone` a step."""
        return self._outputs.take_steps(self._steps.complete(step), step.admissions)

    def take_ends(self) -> StepDone | None:
        """Ends since the last step, or None."""
        return self._outputs.take(None) if self._outputs.has_ends else None

    def close(self) -> None:
        """End the threads of the executor. Idempotent."""
        self.executor.close()

    def _launch_step(
        self, *, before_tokens: bool, max_steps: int = 1, spare_pages: int = 0
    ) -> InFlightStep | None:
        """Schedule a step and start to compute it."""
        self._update_waiting(self._clock.now_s())
        began_s = self._clock.now_s()
        scheduled = self.scheduler.schedule(began_s)
        self._fail_unschedulable()
        if not scheduled:
            return None
        if self.on_launch is not None:
            self.on_launch(sum(count for _, count in scheduled if count > 1))
        if max_steps > 1:
            max_steps = min(max_steps, self._equal_steps(scheduled, spare_pages))
        return self._steps.launch(
            scheduled, began_s, before_tokens=before_tokens, max_steps=max_steps
        )

    def _equal_steps(self, scheduled: list[ScheduledSequence], spare_pages: int) -> int:
        """Decode steps that may be computed at once, beginning with the scheduled one."""
        free_pages = self.allocator.pool.free_pages
        if free_pages < spare_pages and free_pages != self._outputs.reported_free_pages:
            return 1
        plain = self.executor.plain_steps
        return equal_steps(self.scheduler, self.allocator, scheduled, plain, spare_pages)

    def _update_waiting(self, now_s: float) -> None:
        """Expire hints, attach compiled grammars, and close outputs near their deadline."""
        self.hints.update(now_s)
        soon_s = now_s + _DEADLINE_STEPS * self._steps.step_s
        for sequence in self.scheduler:
            if sequence.compiling:
                self._attach_grammar(sequence, now_s)
            deadline = sequence.info.deadline_at_s
            if deadline is not None and deadline <= soon_s and sequence.complete:
                self._close_before_deadline(sequence, now_s)

    def _close_before_deadline(self, sequence: Sequence, now_s: float) -> None:
        """Close the output of a sequence near its deadline, if the request wants that."""
        request = sequence.request
        is_over = self.scheduler.find(request.request_id) is not sequence
        if is_over or request.on_limit != "close" or request.scored:
            return  # ending a scored one early saves no forward
        with self._failing(sequence):
            if sequence.grammar is None or sequence.grammar.can_close:
                self._outputs.end(sequence, sequence_output.close_output(sequence), now_s)

    def _fail_unschedulable(self) -> None:
        """End the sequences that can never fit, and those with an error while scheduled."""
        size, total_pages = self._config.page_tokens, self.allocator.pool.total_pages
        for sequence in self.scheduler.unschedulable:
            self._fail(sequence, out_of_pages(len(sequence.tokens) + 1, size, total_pages))
        self.scheduler.unschedulable.clear()
        for sequence, error in self.scheduler.failed.items():
            self._fail(sequence, error)
        self.scheduler.failed.clear()
        for sequence in self.scheduler.ahead.take_ended():
            self._outputs.end(sequence, Finish("stop"), self._clock.now_s())

    def _check_prompt(self, sequence: Sequence, now_s: float, *, complete: bool) -> None:
        """Check a prompt that has grown; a complete one is queued, or waits for its grammar.

        Raises:
            AgentrtError: The prompt cannot be served.
        """
        if complete:
            self._complete_prompt(sequence, now_s)
        check_length(
            sequence.prompt_tokens,
            complete=complete,
            window_tokens=self._window_tokens,
            page_tokens=self._config.page_tokens,
            total_pages=self.allocator.pool.total_pages,
        )
        if complete and sequence.request.scored:
            self._tokenize_options(sequence)
        elif complete and self._grammars.needs_grammar(sequence):
            self._attach_grammar(sequence, now_s)
        elif complete and (finish := sequence_output.resume_output(sequence)) is not None:
            self._outputs.end(sequence, finish, now_s)

    def _complete_prompt(self, sequence: Sequence, now_s: float) -> None:
        if sequence.phase is not Phase.RUNNING:
            sequence.metrics.record_until("hole", now_s)
        sequence.metrics.completed_at_s = now_s
        sequence.metrics.ahead_tokens = sequence.reached_tokens
        sequence.complete = True
        most, left = sequence.request.sampling.max_tokens, self._window_tokens
        left -= sequence.prompt_tokens
        sequence.max_output_tokens = min(most, left) if self._window_tokens else most

    def _attach_grammar(self, sequence: Sequence, now_s: float) -> None:
        """Attach the grammar of a sequence; until it is compiled only its prompt is computed."""
        sequence.compiling = not self._grammars.is_compiled(sequence)
        sequence.complete = not sequence.compiling
        if sequence.compiling:
            return
        if sequence.phase is not Phase.RUNNING:
            sequence.metrics.record_until("constraint", now_s)
        self.scheduler.extend_prompt(sequence, ())
        began_s = self._clock.now_s()
        with self._failing(sequence):
            finish = self._grammars.attach_grammar(sequence, self._window_tokens)
            ended_s = self._clock.now_s()
            sequence.metrics.record_seconds("constraint", ended_s - began_s)
            if finish is not None:
                self._outputs.end(sequence, finish, ended_s)

    def _tokenize_options(self, sequence: Sequence) -> None:
        longest = self._scorer.tokenize_options(sequence)
        check_options(sequence.prompt_tokens, longest, self._window_tokens, sequence.rope_threshold)
        tokens = sequence.prompt_tokens + longest + 1
        check_pages(tokens, self._config.page_tokens, self.allocator.pool.total_pages)

    @contextmanager
    def _failing(self, sequence: Sequence) -> Iterator[None]:
        """Fail the sequence alone if the block raises an error, a compiler's included."""
        try:
            yield
        except Exception as error:
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._outputs.fail(sequence, error, self._clock.now_s())
