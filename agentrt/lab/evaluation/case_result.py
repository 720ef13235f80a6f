"""Results of cases under configurations, and the file of `--resume` that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.base.synced_lines import SyncedLines


@record
class CaseResult:
    """One case under one configuration.

    Attributes:
        config: Name of the configuration.
        case: Name of the case.
        passed: Whether each scorer gave 1.
        score: Mean of the scorers, from 0 to 1.
        value: Result of the program as JSON-like data; None if it failed.
        error: Type and text of the error; "" if there is none.
        latency_s: Compound latency in seconds.
        cost_pico: Cost in millionths of a millionth of the currency; 0 without prices.
        currency: Currency of the cost; "" without prices.
        output_tokens: Tokens generated.
        judged: False if judges have still to score it.
        judge_cost_pico: Cost of the judges, which is not the configuration's.
        judge_currency: Currency of that cost; "" without prices.
        turn: Number of the later turn in which it was measured again; 0 for the first time.
    """

    config: str
    case: str
    passed: bool
    score: float
    value: Any
    error: str
    latency_s: float
    cost_pico: int = 0
    currency: str = ""
    output_tokens: int = 0
    judged: bool = True
    judge_cost_pico: int = 0
    judge_currency: str = ""
    turn: int = 0


_BEGIN = b'{"evaluation": '


class ResultLog:
    """Results in a file, one JSON object a line, each synced.

    The first line names the suite and the configurations; a line of those that are added comes
    before their results. A last line without its newline is cut off: its case runs again.

    Args:
        path: The file; a missing one is made.
        header: Hashes of the suite and of each configuration. What the file has of them must be
            equal; configurations that it lacks are added, and others that it has stay in it.

    Attributes:
        results: Results that the file had, by configuration and case.
        timings: Results of later turns, by configuration, case and turn.

    Raises:
        UsageError: The file cannot be used, another evaluation writes it, or it is that of another
            one.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path = path
        try:
            self._lines = SyncedLines(path)
        except BlockingIOError:
            raise UsageError(
                f"another evaluation writes to {path}", hint="wait for its end"
            ) from None
        except OSError as error:
            raise UsageError(
                f"{path} cannot be used: {error}", hint="give --resume a file that can be written"
            ) from None
        try:
            rows = self._read(header)
        except UsageError:
            self._lines.close()
            raise
        self.results = {(row.config, row.case): row for row in rows if not row.turn}
        self.timings = {(row.config, row.case, row.turn): row for row in rows if row.turn}

    def add(self, result: CaseResult) -> None:
        """Write a result; waits for the disk."""
        self._write(as_data(result))

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        self._lines.append(json.dumps(row, ensure_ascii=False))

    def _read(self, header: Mapping[str, Any]) -> list[CaseResult]:
        """The results of the file; configurations that it lacks are added to it."""
        known: dict[str, Any] = {}
        rows: list[CaseResult] = []
        cut_off, at = self._lines.cut_off, 1
        try:
            if not self._lines.read() and not _BEGIN.startswith(cut_off[: len(_BEGIN)]):
                raise ValueError("it begins otherwise")  # no first line that was cut off
            for at, line in enumerate(self._lines.read(), start=1):
                row = json.loads(line)
                if at == 1 or "evaluation" in row:
                    known |= row["evaluation"]
                else:
                    rows.append(CaseResult(**row))
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{self._path} is no file of an evaluation: see line {at}",
                hint="give --resume the file of an earlier one, or a new name",
            ) from None
        changed = [name for name in header if known.get(name, header[name]) != header[name]]
        if changed:
            raise UsageError(
                f"{self._path} is of another evaluation: {', '.join(sorted(changed))} differs",
                hint="give the suite and the configurations of that one, or another file",
            )
        added = {name: value for name, value in header.items() if name not in known}
        if added:
            self._write({"evaluation": added})
        return rows


def as_data(result: CaseResult) -> dict[str, Any]:
    """A result as JSON-like data; only one of a later turn says which."""
    data = {one.name: getattr(result, one.name) for one in fields(CaseResult)}
    if not result.turn:
        del data["turn"]
    return data
