"""The runs of one command: opens a runtime, runs, and prints results in the order of inputs."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio import to_thread

from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.ids import RunId
from agentrt.cli.ask_prompt import ask_on_terminal
from agentrt.cli.batch import Batch
from agentrt.cli.batch_inputs import RunInput
from agentrt.cli.batch_summary import BatchSummary
from agentrt.cli.caller import caller_of
from agentrt.cli.error_report import exit_code_of
from agentrt.cli.output import checked
from agentrt.cli.parameters import location_of
from agentrt.cli.progress_display import progress, waiting
from agentrt.cli.result_printer import ResultPrinter
from agentrt.cli.run_outcome import RunOutcome
from agentrt.cli.run_summary import RunSummary
from agentrt.cli.settings import RunSettings
from agentrt.runtime import PersonQuestion, RunOptions, Runtime


class Session:
    """The runs of one command.

    Args:
        program: The program.
        inputs: Arguments of each run.
        settings: Settings of the command.
        results: Stream of the results.
        batch: The batch of the inputs; None for one run.
    """

    def __init__(
        self,
        program: Any,
        inputs: Sequence[RunInput],
        settings: RunSettings,
        results: TextIO,
        batch: Batch | None = None,
    ) -> None:
        self._program = program
        self._inputs = inputs
        self._settings = settings
        self._batch = batch
        self._config = RunConfig(deadline_s=settings.deadline_s, **settings.limits.of_runs)
        self._clock = MonotonicClock()
        self._caller = caller_of(os.environ)
        self._scope = anyio.CancelScope()
        self._run_ids = [RunId(secrets.token_hex(8)) for _ in inputs]
        self._outcomes = batch.settled(self._run_ids) if batch is not None else {}
        self._skipped = batch.skipped if batch is not None else frozenset()
        self._to_run = [
            i for i in range(len(inputs)) if i not in self._outcomes and i not in self._skipped
        ]
        labels = {self._run_ids[i]: f"{inputs[i].number}: " for i in self._to_run}
        self._summary = RunSummary(
            settings.trace_target,
            secrets.token_hex(4) if batch is not None else "",
            content=settings.content_config,
            show=settings.show,
        )
        self._progress = progress(
            quiet=settings.quiet,
            runs=len(self._to_run),
            clock=self._clock,
            live=False if settings.as_json else None,
            labels=labels if batch is not None else {},
            # With -v the printer draws every node, with what each costs the run.
            record_of=None if settings.verbose else self._summary.record_of,
        )
        self._printer = ResultPrinter(program, inputs, settings, results, self._summary, batch)
        self._printed = 0
        self._failed_start: Exception | None = None

    @property
    def write_grace_s(self) -> float:
        """Time for which `write` tools hold the end of the process."""
        return self._config.write_grace_s

    def cancel(self) -> None:
        """Cancel the runs in flight; they are still accounted for."""
        self._scope.cancel()

    async def perform(self) -> int:
        """Run everything and print it; returns the exit code of the first failed run, or 0."""
        began_s = self._clock.now_s()
        self._print_due()
        with self._scope:
            try:
                if self._to_run:
                    self._progress.open("starting the engine")
                    async with self._open() as runtime:
                        freeze_gc()
                        await self._run_all(runtime)
            except Exception as error:
                self._not_started(error)
            finally:
                self._progress.close()
                self._summary.close()
        self._print_due()
        self._summary.forget()
        if self._settings.bound:
            self._print_bounds()
        if self._settings.report:
            self._write_report(Path(self._settings.report))
        if self._batch is not None and not self._settings.quiet:
            self._print_closing(self._batch, self._clock.now_s() - began_s)
        if self._printer.write_error is not None:
            place = "standard output" if self._settings.resume is None else self._settings.resume
            raise UsageError(
                f"the result cannot be written to {place}: {self._printer.write_error}",
                hint="look at where the output goes",
            )
        failures = [o.error for _, o in sorted(self._outcomes.items()) if o.error is not None]
        failures += [self._failed_start] if self._failed_start is not None else []
        return exit_code_of(failures[0]) if failures else 0

    def _print_bounds(self) -> None:
        """Print how far each run was from its latency bound; the engine has ended by now."""
        from agentrt.cli.bound import BoundLimits

        with waiting("measuring this machine", quiet=self._settings.quiet):
            limits = BoundLimits(self._settings.engine_choice)
        for run_id in self._run_ids:
            record = self._summary.record_of(run_id)
            for line in limits.lines(record) if record is not None else ():
                sys.stderr.write(line + "\n")

    def _write_report(self, path: Path) -> None:
        """Write the report of the command's one run."""
        from agentrt.cli.report import write_report

        record = self._summary.record_of(self._run_ids[0])
        if record is not None:
            write_report(path, record, self._summary.transcript_of(self._run_ids[0]))
            if not self._settings.quiet:
                sys.stderr.write(f"report {path}\n")

    def _print_closing(self, batch: Batch, spent_s: float) -> None:
        """Print what became of the batch."""
        closing = BatchSummary(standing=len(self._skipped))
        for index, one in enumerate(self._inputs):
            outcome = self._outcomes.get(index)
            if outcome is None or outcome.is_cut_off:
                closing.not_run += index not in self._skipped
            elif one.error is not None and outcome.error is one.error:
                closing.unread.append(one.number)
            elif outcome.error is None:
                closing.done += 1
            else:
                closing.failed.append(one.number)
            used = self._summary.usage_of(self._run_ids[index])
            closing.input_tokens += used.input_tokens
            closing.output_tokens += used.output_tokens
            closing.cost_pico += used.cost_pico
            closing.currency = used.currency or closing.currency
        closing.unknown = batch.unknown_now()
        for line in closing.lines(spent_s):
            sys.stderr.write(line + "\n")

    def _open(self) -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(
            engine=self._settings.engine_choice,
            observers=[self._progress, *self._summary.observers],
            clock=self._clock,
            config=self._config,
            content=self._settings.content_config.keep,
            scheduler=SchedulerConfig(
                policy=self._settings.policy_name,
                speculate=self._settings.speculate,
                prefill_ahead=self._settings.speculate,
            ),
            programs=[self._program],
            remote_limits=self._settings.limits.of_servers,
            record=self._settings.record,
        )

    async def _run_all(self, runtime: Runtime) -> None:
        if len(self._to_run) == 1:
            await self._run(runtime, 0, self._to_run[0])
            return
        from agentrt.base.bounded_map import BoundedMap  # for batches

        run = partial(self._run, runtime)
        calls = BoundedMap(run, self._to_run, concurrency=self._settings.concurrency)
        async with calls as ends:
            async for _ in ends:
                pass  # each is printed in `_run`, before the next one begins

    async def _run(self, runtime: Runtime, _at: int, index: int) -> None:
        run_id = self._run_ids[index]
        writes = self._batch.writes_of(index) if self._batch is not None else None
        options = RunOptions(
            run_id=run_id,
            seed=self._settings.seed,
            deadline_s=self._settings.deadline_s,
            tenant=self._settings.tenant,
            priority=self._settings.priority,
            on_emit=self._progress.emit,
            on_ask=self._ask,
            on_write=writes,
            traceparent=None if self._caller is None else self._caller.traceparent(),
            tracestate="" if self._caller is None else self._caller.state,
        )
        configured = runtime.with_options(options)
        try:
            value = await configured.run(self._program, **self._inputs[index].arguments)
            if writes is not None:
                writes.check_all_made()
            outcome = RunOutcome(run_id, checked(value, where=location_of(self._program)))
        except Exception as error:
            outcome = RunOutcome(run_id, error=error)
        except SystemExit as error:  # ended by the program, with its own exit code
            outcome = RunOutcome(run_id, error=error)
        except anyio.get_cancelled_exc_class() as error:
            self._outcomes[index] = RunOutcome(run_id, error=error)
            raise
        batch = self._batch
        if batch is not None and (batch.has_calls(index) or index != self._printed):
            outcome = await self._logged(batch, index, outcome)
        self._outcomes[index] = outcome
        self._print_due()

    async def _ask(self, question: PersonQuestion) -> str:
        """Ask at the terminal, which no progress disturbs meanwhile."""
        with self._progress.paused():
            return await ask_on_terminal(question)

    async def _logged(self, batch: Batch, index: int, outcome: RunOutcome) -> RunOutcome:
        """Log the end of a record that tools have made or whose row is not due yet."""
        row = self._printer.row_of(index, outcome)
        code = 0 if outcome.error is None else exit_code_of(outcome.error) or 1
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(batch.end_record, index, row, code))
        return RunOutcome(outcome.run_id, outcome.value, outcome.error, row)

    def _not_started(self, error: Exception) -> None:
        """The engine failed outside any run: runs without an outcome failed with it.

        Records of a batch are left for `--resume`, so the error is reported once.
        """
        if self._batch is not None:
            self._failed_start = error
            self._printer.report(error, RunInput({}))
            return
        for index, run_id in enumerate(self._run_ids):
            if index not in self._outcomes:
                self._summary.failed_start(run_id, self._program, self._clock, error, self._caller)
                self._outcomes[index] = RunOutcome(run_id, error=error)

    def _print_due(self) -> None:
        """Print outcomes in input order, each as soon as all before it are printed."""
        while self._printed < len(self._inputs):
            outcome = self._outcomes.get(self._printed)
            if outcome is None and self._printed not in self._skipped:
                return
            if outcome is not None:
                if self._batch is not None and outcome.is_cut_off:
                    return  # the rows end here; --resume goes on
                if len(self._inputs) == 1:
                    self._progress.close()
                self._printer.print(self._printed, outcome)
            self._printed += 1
