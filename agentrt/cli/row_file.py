"""The file of `--resume`: rows of a batch, appended line by line, each synced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrt.analysis.summary import SCHEMA
from agentrt.base.errors import UsageError
from agentrt.base.synced_lines import SyncedLines


class RowFile:
    """Rows in a file, in the order of the inputs.

    A last line without its newline was cut off: it is no row, and the next one takes its place.

    Args:
        path: The file; made if missing.
        as_json: Whether rows are `agentrt.run/1` objects.

    Attributes:
        rows: The rows that stand there.

    Raises:
        UsageError: The file cannot be read or written, another command writes it, or it holds
            other rows than such a batch makes.
    """

    def __init__(self, path: Path, *, as_json: bool) -> None:
        try:
            self._lines = SyncedLines(path)
        except BlockingIOError:
            raise UsageError(f"another batch writes to {path}", hint="wait for its end") from None
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read and written: {error.strerror}",
                hint="give --resume the output of a batch, or a new file",
            ) from None
        try:
            self.rows = self._lines.read()
            for number, line in enumerate(self.rows, start=1):
                self._check(number, json.loads(line), as_json=as_json)
        except ValueError as error:
            self._lines.close()
            raise UsageError(
                f"{path} is no output of a batch: {error}",
                hint="give --resume what such a batch has written, or a new file",
            ) from None

    def write(self, index: int, text: str) -> None:
        """Append a row, or replace the one that stands there.

        Raises:
            OSError: The file cannot be written.
        """
        if index == len(self.rows):
            self._lines.append(text)
            self.rows.append(text)
        elif self.rows[index] != text:
            self.rows[index] = text
            self._lines.replace(self.rows)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    @staticmethod
    def _check(number: int, row: Any, *, as_json: bool) -> None:
        is_run = isinstance(row, dict) and row.get("schema") == SCHEMA
        if is_run != as_json:
            flag = "without --json" if as_json else "with --json"
            raise ValueError(f"line {number} is of a batch {flag}")
