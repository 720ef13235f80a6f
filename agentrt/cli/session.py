"""The runs of one command: opens a runtime, runs, and prints results in the order of inputs."""

from __future__ import annotations

import inspect
import os
import secrets
import shutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import anyio

from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.ids import RunId
from agentrt.cli.ask_prompt import ask_on_terminal
from agentrt.cli.error_report import exit_code_of, located, three_lines
from agentrt.cli.output import checked, shown
from agentrt.cli.parameters import location_of
from agentrt.cli.progress import progress
from agentrt.cli.run_summary import RunSummary
from agentrt.cli.settings import RunSettings
from agentrt.runtime import RunOptions, Runtime


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """End of one run.

    Attributes:
        run_id: Id of the run.
        value: Result as plain data.
        error: Exception raised instead.
    """

    run_id: RunId
    value: Any = None
    error: BaseException | None = None


class Session:
    """The runs of one command.

    Args:
        program: The program.
        inputs: Arguments, one mapping per run.
        settings: Settings of the command.
        results: Stream of the results.
    """

    def __init__(
        self,
        program: Any,
        inputs: Sequence[dict[str, Any]],
        settings: RunSettings,
        results: TextIO,
    ) -> None:
        self._program = program
        self._inputs = inputs
        self._settings = settings
        self._results = results
        self._clock = MonotonicClock()
        self._scope = anyio.CancelScope()
        self._progress = progress(quiet=settings.quiet, runs=len(inputs), clock=self._clock)
        self._summary = RunSummary(settings.trace_target)
        self._run_ids = [RunId(secrets.token_hex(8)) for _ in inputs]
        self._outcomes: dict[int, RunOutcome] = {}
        self._printed = 0
        self._write_error: OSError | UnicodeError | None = None

    def cancel(self) -> None:
        """Cancel the runs in flight; they are still accounted for."""
        self._scope.cancel()

    async def perform(self) -> int:
        """Run everything and print it; returns the exit code of the first failed run, or 0."""
        with self._scope:
            try:
                async with self._open() as runtime:
                    freeze_gc()
                    await self._run_all(runtime)
            except Exception as error:
                self._not_started(error)
            finally:
                self._progress.close()
                self._summary.close()
        self._print_due()
        if self._settings.bound:
            self._print_bounds()
        if self._write_error is not None:
            raise UsageError(
                f"the result cannot be written to standard output: {self._write_error}",
                hint="look at where the output goes",
            )
        failures = [o.error for _, o in sorted(self._outcomes.items()) if o.error is not None]
        return exit_code_of(failures[0]) if failures else 0

    def _print_bounds(self) -> None:
        """Print how far each run was from its latency bound; the engine has ended by now."""
        from agentrt.cli.bound import BoundLimits

        limits = BoundLimits(self._settings.engine_choice)
        for run_id in self._run_ids:
            record = self._summary.record_of(run_id)
            for line in limits.lines(record) if record is not None else ():
                sys.stderr.write(line + "\n")

    def _open(self) -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(
            engine=self._settings.engine_choice,
            remote_model=self._settings.selection.remote_model,
            api_key=self._settings.selection.api_key,
            observers=[self._progress, *self._summary.observers],
            clock=self._clock,
            config=RunConfig(deadline_s=self._settings.deadline_s),
            scheduler=SchedulerConfig(
                policy=self._settings.policy_name, speculate=self._settings.speculate
            ),
            programs=[self._program],
        )

    async def _run_all(self, runtime: Runtime) -> None:
        limiter = anyio.CapacityLimiter(self._settings.concurrency)
        async with anyio.create_task_group() as tasks:
            for index in range(len(self._inputs)):
                await limiter.acquire_on_behalf_of(index)
                tasks.start_soon(self._run, runtime, index, limiter)

    async def _run(self, runtime: Runtime, index: int, limiter: anyio.CapacityLimiter) -> None:
        run_id = self._run_ids[index]
        options = RunOptions(
            run_id=run_id,
            seed=self._settings.seed,
            deadline_s=self._settings.deadline_s,
            tenant=self._settings.tenant,
            priority=self._settings.priority,
            on_emit=self._progress.emit,
            on_ask=ask_on_terminal,
        )
        configured = runtime.with_options(options)
        try:
            value = await configured.run(self._program, **self._inputs[index])
            self._outcomes[index] = RunOutcome(
                run_id, checked(value, where=location_of(self._program))
            )
        except Exception as error:
            self._outcomes[index] = RunOutcome(run_id, error=error)
        except SystemExit as error:  # ended by the program, with its own exit code
            self._outcomes[index] = RunOutcome(run_id, error=error)
        except anyio.get_cancelled_exc_class() as error:
            self._outcomes[index] = RunOutcome(run_id, error=error)
            raise
        finally:
            limiter.release_on_behalf_of(index)
        self._print_due()

    def _not_started(self, error: Exception) -> None:
        """The engine failed outside any run: runs without an outcome failed with it."""
        for index, run_id in enumerate(self._run_ids):
            if index not in self._outcomes:
                self._summary.failed_start(run_id, self._program, self._clock, error)
                self._outcomes[index] = RunOutcome(run_id, error=error)

    def _print_due(self) -> None:
        """Print outcomes in input order, each as soon as all before it are printed."""
        while (outcome := self._outcomes.get(self._printed)) is not None:
            self._printed += 1
            if len(self._inputs) == 1:
                self._progress.close()
            self._print(outcome)

    def _print(self, outcome: RunOutcome) -> None:
        error = outcome.error
        folder = Path(inspect.getfile(self._program.fn)).resolve().parent
        if isinstance(error, Exception):
            if self._settings.verbose:
                traceback.print_exception(error, file=sys.stderr)
            sys.stderr.write(three_lines(error, folder=folder) + "\n")
        elif isinstance(error, SystemExit) and isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")  # as Python itself does
        if self._settings.as_json:
            failed = isinstance(error, Exception | SystemExit)
            failure = located(error, folder=folder) if error is not None and failed else None
            run_object = self._summary.summary(outcome.run_id, outcome.value, failure)
            self._write(shown(run_object, pretty=False))
        elif error is None:
            pretty = self._results.isatty() and len(self._inputs) == 1
            self._write(shown(outcome.value, pretty=pretty))
        elif len(self._inputs) > 1:
            self._write("null")  # keep results on the lines of their inputs
        if self._settings.verbose and not self._settings.quiet:
            width = shutil.get_terminal_size((100, 24)).columns
            bars = self._summary.bars(outcome.run_id, width)
            sys.stderr.write(bars + "\n" if bars else "")
        line = self._summary.line(outcome.run_id)
        if line and not self._settings.quiet:
            sys.stderr.write(line + "\n")

    def _write(self, text: str) -> None:
        if self._write_error is not None:
            return
        try:
            self._results.write(text + "\n")
            self._results.flush()
        except (OSError, UnicodeError) as error:
            self._write_error = error
            # Discard the rest of the buffer, or the interpreter fails on it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._results.fileno())
