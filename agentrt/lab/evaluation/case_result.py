"""Results of cases under configurations, and the file of `--resume` that keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from agentrt.base.errors import UsageError
from agentrt.base.record import record


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


class ResultLog:
    """Results in a file, one JSON object a line, each synced.

    The first line names the suite and the configurations. A last line without its newline is cut
    off: its case runs again.

    Args:
        path: The file; a missing one is made.
        header: Hashes of the suite and of each configuration, which the file has to have.

    Attributes:
        results: Results that the file has, by configuration and case.

    Raises:
        UsageError: The file cannot be used, or is that of another evaluation.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.results: dict[tuple[str, str], CaseResult] = {}
        self._path = path
        try:
            content = path.read_bytes() if path.exists() else b""
            kept = content.rfind(b"\n") + 1
            if kept:
                self._read(content[:kept], header)
            self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
            self._file.truncate(kept)
            self._file.seek(kept)
            if not kept:
                self._write({"evaluation": dict(header)})
        except OSError as error:
            raise UsageError(
                f"{path} cannot be used: {error}", hint="give --resume a file that can be written"
            ) from None

    def add(self, result: CaseResult) -> None:
        """Write a result; waits for the disk."""
        self.results[result.config, result.case] = result
        self._write(as_data(result))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, content: bytes, header: Mapping[str, Any]) -> None:
        first, *rest = content.splitlines()
        try:
            found = json.loads(first)["evaluation"]
            rows = [CaseResult(**json.loads(line)) for line in rest]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._path} is no file of an evaluation: {error!r}",
                hint="give --resume the file of an earlier one, or a new name",
            ) from None
        names = found.keys() | header.keys()
        changed = [name for name in names if found.get(name) != header.get(name)]
        if changed:
            raise UsageError(
                f"{self._path} is of another evaluation: {', '.join(sorted(changed))} differs",
                hint="give the suite and the configurations of that one, or another file",
            )
        self.results = {(row.config, row.case): row for row in rows}


def as_data(result: CaseResult) -> dict[str, Any]:
    """A result as JSON-like data."""
    return {one.name: getattr(result, one.name) for one in fields(CaseResult)}
