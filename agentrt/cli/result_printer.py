"""Printing of outcomes: results to their place, errors and latency to standard error."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from agentrt.base.canonical_json import dumps
from agentrt.base.text_columns import folded
from agentrt.cli.batch import Batch
from agentrt.cli.batch_inputs import RunInput
from agentrt.cli.error_report import helpful_traceback, located, record_lines
from agentrt.cli.output import plain, shown
from agentrt.cli.run_outcome import RunOutcome
from agentrt.cli.run_summary import RunSummary
from agentrt.cli.settings import RunSettings
from agentrt.cli.standard_streams import reading_width


class ResultPrinter:
    """Prints the outcomes of one command.

    Args:
        program: The program.
        inputs: Arguments of each run.
        settings: Settings of the command.
        results: Stream of the results.
        summary: Records of the runs.
        batch: The batch of the inputs; None for one run.

    Attributes:
        write_error: Error that ended the writing of results; None if there is none.
    """

    def __init__(
        self,
        program: Any,
        inputs: Sequence[RunInput],
        settings: RunSettings,
        results: TextIO,
        summary: RunSummary,
        batch: Batch | None,
    ) -> None:
        self._inputs = inputs
        self._settings = settings
        self._results = results
        self._summary = summary
        self._batch = batch
        self._folder = Path(inspect.getfile(program.fn)).resolve().parent
        self.write_error: OSError | UnicodeError | None = None

    def print(self, index: int, outcome: RunOutcome) -> None:
        """Print the result, the error and, outside a batch or with -v, the latency line.

        With `--show`, what was said in the run comes first.
        """
        self._summary.show(outcome.run_id)
        self.report(outcome.error, self._inputs[index])
        if self._batch is not None:
            if index not in self._batch.standing:
                self._write_row(index, self.row_of(index, outcome))
        elif self._settings.as_json:
            self._write(self._run_object(index, outcome))
        elif outcome.error is None:
            self._write(shown(outcome.value, pretty=self._results.isatty()))
        if self._settings.quiet:
            return
        if self._settings.verbose:
            tree = self._summary.tree(outcome.run_id, reading_width(), sys.stderr.encoding)
            sys.stderr.write(tree + "\n" if tree else "")
        if self._batch is None or self._settings.verbose:
            line = self._summary.line(outcome.run_id)
            if sys.stderr.isatty():
                line = folded(line.replace(f" {Path.home()}/", " ~/"), reading_width())
            sys.stderr.write(line + "\n" if line else "")

    def report(self, error: BaseException | None, of: RunInput) -> None:
        """Print an error on standard error, with the record of a batch that it belongs to."""
        if isinstance(error, Exception):
            if self._settings.verbose:
                sys.stderr.write(helpful_traceback(error, self._folder))
            found = located(error, folder=self._folder)
            if self._batch is not None and of.number and of.error is None:
                place = f"{self._batch.path}:{of.number}"
                if place not in found.where:
                    found = replace(found, where=f"{found.where}, record {place}")
            sys.stderr.write(record_lines(error, found) + "\n")
        elif isinstance(error, SystemExit) and isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")  # as Python itself does

    def row_of(self, index: int, outcome: RunOutcome) -> str:
        """The line of a record: its result as JSON, or null if it failed."""
        if outcome.row:
            return outcome.row
        if self._settings.as_json:
            return self._run_object(index, outcome)
        return "null" if outcome.error is not None else dumps(plain(outcome.value))

    def _run_object(self, index: int, outcome: RunOutcome) -> str:
        error = outcome.error
        failed = isinstance(error, Exception | SystemExit)
        failure = located(error, folder=self._folder) if error is not None and failed else None
        found = self._summary.summary(outcome.run_id, outcome.value, failure)
        if self._batch is not None:
            found["record"] = self._inputs[index].number
        return shown(found, pretty=False)

    def _write_row(self, index: int, text: str) -> None:
        assert self._batch is not None
        if self._batch.rows is None:
            self._write(text)
        elif self.write_error is None:
            try:
                self._batch.rows.write(index, text)
            except OSError as error:
                self.write_error = error

    def _write(self, text: str) -> None:
        if self.write_error is not None:
            return
        try:
            self._results.write(text + "\n")
            self._results.flush()
        except (OSError, UnicodeError) as error:
            self.write_error = error
            # Discard the rest of the buffer, or the interpreter fails on it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._results.fileno())
