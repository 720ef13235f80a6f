"""A batch: its records, what earlier commands have done of them, and where its rows go."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from agentrt.base.errors import OutcomeUnknown, UsageError
from agentrt.base.ids import RunId
from agentrt.base.user_folders import state_folder
from agentrt.cli.batch_inputs import RunInput
from agentrt.cli.batch_state import BatchState, LoggedRecord
from agentrt.cli.batch_writes import RecordWrites
from agentrt.cli.row_file import RowFile
from agentrt.cli.run_outcome import RunOutcome
from agentrt.cli.settings import RunSettings


class Batch:
    """The records of one batch, over all commands that work on it.

    Args:
        program: The program.
        inputs: All records.
        settings: Settings of the command; `batch` is set.
        results: Standard output.

    Attributes:
        rows: The file of `--resume`; None writes to standard output.
        standing: Indices of the records with a row that an earlier command has written and this one
            keeps.
        skipped: Standing records with nothing to report.

    Raises:
        UsageError: The file of `--resume`, the state file or `--again` does not fit the inputs.
    """

    def __init__(
        self, program: Any, inputs: Sequence[RunInput], settings: RunSettings, results: TextIO
    ) -> None:
        assert settings.batch is not None
        self._inputs = inputs
        self._again = frozenset(settings.again or ())
        self.path = settings.batch
        numbers = {one.number for one in inputs}
        for number in sorted(self._again - numbers):
            raise UsageError(
                f"--again {number} names no record of {settings.batch}",
                hint="give the number of its line",
            )
        self.rows: RowFile | None = None
        if settings.resume is not None:
            _refuse_same(settings.resume, results)
            self.rows = RowFile(settings.resume, as_json=settings.as_json)
        self._state = BatchState(_state_path(program, settings))
        try:
            self._check_fit(settings)
        except BaseException:
            self._close_files()
            raise
        count = len(self.rows.rows) if self.rows is not None else 0
        self.standing = frozenset(i for i in range(count) if inputs[i].number not in self._again)
        unknown = self._unknown = frozenset(
            i
            for i, one in enumerate(inputs)
            if one.number not in self._again
            and (logged := self._logged(one)) is not None
            and logged.unknown
        )
        self.skipped = self.standing - unknown

    def settled(self, run_ids: Sequence[RunId]) -> dict[int, RunOutcome]:
        """Outcomes of the records that need no run, by index; skipped ones have none."""
        found = {}
        for index, run_id in enumerate(run_ids):
            outcome = None if index in self.skipped else self._settled(index, run_id)
            if outcome is not None:
                found[index] = outcome
        return found

    def unknown_now(self) -> list[int]:
        """Numbers of the records with a call whose outcome is not known."""
        return [one.number for one in self._inputs if (log := self._logged(one)) and log.unknown]

    def _settled(self, index: int, run_id: RunId) -> RunOutcome | None:
        one = self._inputs[index]
        logged = self._logged(one)
        row = (logged.row or "") if logged is not None else ""
        if index in self._unknown:
            assert logged is not None
            call = logged.unknown[0]
            error = OutcomeUnknown(
                f"{call.tool} was called and its end is not known ({call.call}, idempotency key "
                f"{call.key})",
                hint=f"Look whether it was done; --again {one.number} makes the call again",
                where=f"{self.path}:{one.number}",
                tool=call.tool,
            )
            return RunOutcome(run_id, error=error, row=row)
        if one.error is not None:
            return RunOutcome(run_id, error=one.error)
        if row and one.number not in self._again:
            assert logged is not None
            failed = SystemExit(logged.code) if logged.code else None
            return RunOutcome(run_id, error=failed, row=row)
        return None

    def writes_of(self, index: int) -> RecordWrites:
        """The function that makes the calls of `write` tools of a record."""
        one = self._inputs[index]
        return RecordWrites(self._state, one, again=one.number in self._again)

    def has_calls(self, index: int) -> bool:
        """Whether `write` tools were called for a record, so that its end must be logged."""
        logged = self._logged(self._inputs[index])
        return logged is not None and bool(logged.calls)

    def end_record(self, index: int, row: str, code: int) -> None:
        """Log the end of a record; waits for the disk."""
        one = self._inputs[index]
        self._state.end_record(one.number, one.digest, row, code)

    def close(self) -> None:
        """Close the files; the state is removed if all records have ended well."""
        logged = self._state.records.values()
        complete = self.rows is None or len(self.rows.rows) == len(self._inputs)
        if logged and complete and all(one.is_settled for one in logged):
            self._state.remove()
        self._close_files()

    def _close_files(self) -> None:
        if self.rows is not None:
            self.rows.close()
        self._state.close()

    def _logged(self, one: RunInput) -> LoggedRecord | None:
        return self._state.records.get(one.number)

    def _check_fit(self, settings: RunSettings) -> None:
        by_number = {one.number: one for one in self._inputs}
        for number, logged in self._state.records.items():
            if settings.resume is None:
                if logged.calls and (logged.row is None or logged.unknown):
                    raise UsageError(
                        f"an earlier batch of {self.path} was cut off after calls of write tools",
                        hint="go on with it by --resume FILE, its output; or begin anew and "
                        f"remove {self._state.path}",
                    )
            elif number not in by_number or by_number[number].digest != logged.digest:
                raise UsageError(
                    f"line {number} of {self.path} is not the one that {self._state.path} is about",
                    hint="give --resume the output of a batch of these inputs and flags",
                )
        if settings.resume is None and self._state.records:
            self._state.restart()
        if self.rows is not None and len(self.rows.rows) > len(self._inputs):
            raise UsageError(
                f"{settings.resume} has {len(self.rows.rows)} lines, and {self.path} only "
                f"{len(self._inputs)} records",
                hint="give --resume the output of a batch of these inputs",
            )


def _state_path(program: Any, settings: RunSettings) -> Path:
    """The state file beside the file of `--resume`, else in the user's state folder."""
    assert settings.batch is not None
    file = Path(inspect.getfile(program.fn)).resolve()
    name = f"{file}:{program.name}\n{os.path.abspath(settings.batch)}"
    digest = sha256(name.encode()).hexdigest()[:16]
    of_user = state_folder(os.environ) / "batches" / f"{digest}.jsonl"
    if settings.resume is None:
        return of_user
    beside = settings.resume.with_name(settings.resume.name + ".state")
    # Empty, it may be the output of a command that was cut off before its first row got there.
    is_output = settings.resume.exists()
    return of_user if is_output and of_user.exists() and not beside.exists() else beside


def _refuse_same(resume: Path, results: TextIO) -> None:
    """Refuse a file that is standard output too."""
    try:
        same = os.path.samestat(os.fstat(results.fileno()), resume.stat())
    except (OSError, ValueError):
        return
    if same:
        raise UsageError(
            f"{resume} is standard output too", hint="leave out the redirection: --resume writes it"
        )
