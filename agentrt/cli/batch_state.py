"""State file of a batch: the calls of its `write` tools, each logged before it starts.

One JSON object a line, appended and synced: the batch, then for a record the intent of a call, the
end of a call and the end of the record. A last line without its newline was never synced, so what
it announces has not begun.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from agentrt.base.atomic_write import sync_folder
from agentrt.base.errors import UsageError
from agentrt.base.private_files import make_private_file, make_private_folder

CallEnd = Literal["unknown", "done", "failed"]


@dataclass(slots=True)
class LoggedCall:
    """A call of a `write` tool.

    Attributes:
        call: Path of its node in the run.
        tool: Name of the tool.
        arguments: Hash of the arguments.
        key: Idempotency key.
        end: How it ended; "unknown" until that is logged.
        text: The result as JSON, or the error; None if it was not kept.
    """

    call: str
    tool: str
    arguments: str
    key: str
    end: CallEnd = "unknown"
    text: str | None = None


@dataclass(slots=True)
class LoggedRecord:
    """A record that has called `write` tools, or ended before its row was due.

    Attributes:
        digest: Hash of its input.
        calls: Calls by path.
        row: Line of output; None until the end of the record.
        code: Exit code of its end.
    """

    digest: str
    calls: dict[str, LoggedCall] = field(default_factory=dict)
    row: str | None = None
    code: int = 0

    @property
    def unknown(self) -> list[LoggedCall]:
        """Calls that have started, and whose end is not known."""
        return [call for call in self.calls.values() if call.end == "unknown"]

    @property
    def is_settled(self) -> bool:
        """Whether nothing has to be known of it any more."""
        return self.row is not None and not (self.calls and self.code) and not self.unknown


class BatchState:
    """The log of one batch in its file; the file is made by the first call.

    Args:
        path: The file.

    Attributes:
        batch_id: Random id of the batch, kept by the commands that go on with it.
        records: Logged records by number.

    Raises:
        UsageError: The file cannot be read, or is no log of a batch.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batch_id = secrets.token_hex(8)
        self.records: dict[int, LoggedRecord] = {}
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._end_bytes = 0
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(str(error)) from None
        self._end_bytes = content.rfind(b"\n") + 1
        try:
            for line in content[: self._end_bytes].splitlines():
                self._apply(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(repr(error)) from None

    def begin(self, number: int, digest: str, call: LoggedCall) -> None:
        """Log a call that is about to start.

        Raises:
            OSError: The file cannot be written.
            UsageError: Another command is going on with the batch.
        """
        self._append(
            {
                "record": number,
                "input": digest,
                "call": call.call,
                "tool": call.tool,
                "arguments": call.arguments,
                "key": call.key,
            }
        )

    def end_call(self, number: int, call: str, end: CallEnd, text: str | None) -> None:
        """Log the end of a call."""
        self._append({"record": number, "call": call, "end": end, "text": text})

    def end_record(self, number: int, digest: str, row: str, code: int) -> None:
        """Log the end of a record, with its line of output."""
        self._append({"record": number, "input": digest, "row": row, "code": code})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def restart(self) -> None:
        """Forget an earlier batch, and begin another one in the same file.

        Raises:
            UsageError: Another command is going on with the batch.
        """
        with self._lock:
            (self._file or self._opened()).truncate(0)
            self._end_bytes = 0
            self.records.clear()
            self.batch_id = secrets.token_hex(8)

    def remove(self) -> None:
        """Close and remove the file, unless another command is going on with the batch."""
        with suppress(UsageError, OSError):
            if self._file is None:
                self._opened()
            self.path.unlink()
        self.close()

    def _append(self, entry: dict[str, Any]) -> None:
        with self._lock:
            file = self._file or self._opened()
            if not self._end_bytes:
                self._write(file, {"batch": self.batch_id})
            self._write(file, entry)
            os.fsync(file.fileno())
            self._apply(entry)

    def _write(self, file: BinaryIO, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        file.seek(self._end_bytes)
        file.truncate()
        file.write(line)
        file.flush()
        self._end_bytes += len(line)

    def _opened(self) -> BinaryIO:
        make_private_folder(self.path.parent)
        is_new = not self.path.exists()
        make_private_file(self.path)
        file = self.path.open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UsageError(
                f"another command is going on with the batch of {self.path}",
                hint="wait for its end",
            ) from None
        if is_new:
            sync_folder(self.path.parent)
        self._file = file
        return file

    def _apply(self, entry: dict[str, Any]) -> None:
        if "batch" in entry:
            self.batch_id = entry["batch"]
            return
        number = int(entry["record"])
        if "input" in entry:
            self.records.setdefault(number, LoggedRecord(entry["input"]))
        logged = self.records[number]
        if "key" in entry:
            logged.calls[entry["call"]] = LoggedCall(
                entry["call"], entry["tool"], entry["arguments"], entry["key"]
            )
            logged.row = None
        elif "end" in entry:
            call = logged.calls[entry["call"]]
            call.end, call.text = entry["end"], entry["text"]
        else:
            logged.row, logged.code = entry["row"], int(entry["code"])

    def _unreadable(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path} is no readable state of a batch: {why}",
            hint="it says which calls of write tools were made: move it away only after a look",
        )
