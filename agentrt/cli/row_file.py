"""The file of `--resume`: rows of a batch, appended line by line, each synced."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from agentrt.analysis.summary import SCHEMA
from agentrt.base.errors import UsageError


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
        self._path = path.resolve()
        try:
            self._file = open(  # noqa: SIM115  # closed by close()
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b"
            )
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read and written: {error.strerror}",
                hint="give --resume the output of a batch, or a new file",
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(f"another batch writes to {path}", hint="wait for its end") from None
        content = self._file.read()
        self._end_bytes = content.rfind(b"\n") + 1
        try:
            lines = content[: self._end_bytes].decode().split("\n")[:-1]
            for number, line in enumerate(lines, start=1):
                self._check(number, json.loads(line), as_json=as_json)
        except ValueError as error:
            self._file.close()
            raise UsageError(
                f"{path} is no output of a batch: {error}",
                hint="give --resume what such a batch has written, or a new file",
            ) from None
        self.rows = lines

    def write(self, index: int, text: str) -> None:
        """Append a row, or replace the one that stands there.

        Raises:
            OSError: The file cannot be written.
        """
        if index < len(self.rows) and self.rows[index] == text:
            return
        if index < len(self.rows):
            self._replace(index, text)
            return
        assert index == len(self.rows)
        self._file.seek(self._end_bytes)
        self._file.truncate()
        self._file.write(f"{text}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end_bytes = self._file.tell()
        self.rows.append(text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _replace(self, index: int, text: str) -> None:
        """Write all rows to a new file that takes the place of this one."""
        self.rows[index] = text
        draft = self._path.with_name(self._path.name + ".part")
        new = draft.open("w+b")
        fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.write("".join(f"{row}\n" for row in self.rows).encode())
        new.flush()
        os.fsync(new.fileno())
        os.replace(draft, self._path)
        self._file.close()
        self._file, self._end_bytes = new, new.tell()

    @staticmethod
    def _check(number: int, row: Any, *, as_json: bool) -> None:
        is_run = isinstance(row, dict) and row.get("schema") == SCHEMA
        if is_run != as_json:
            flag = "without --json" if as_json else "with --json"
            raise ValueError(f"line {number} is of a batch {flag}")
