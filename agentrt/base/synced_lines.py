"""Files of lines that are appended one by one, each synced, and that one process writes."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from agentrt.base.atomic_write import atomic_write


class SyncedLines:
    """The lines of a file.

    A last line without its newline was cut off: it is no line, and the next one takes its place.

    Args:
        path: The file; made if missing.

    Raises:
        BlockingIOError: Another process writes the file.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._file = open(  # noqa: SIM115  # closed by close()
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b"
        )
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = self._file.read()
        except OSError:
            self._file.close()
            raise
        self._end_bytes = content.rfind(b"\n") + 1
        self._content = content[: self._end_bytes]
        self._cut_off = content[self._end_bytes :]

    def read(self) -> list[str]:
        """The lines that stood there at first.

        Raises:
            ValueError: They are not UTF-8.
        """
        return self._content.decode().split("\n")[:-1]

    @property
    def cut_off(self) -> bytes:
        """Bytes behind the last line when the file was opened."""
        return self._cut_off

    def append(self, line: str) -> None:
        """Write a line, and wait for the disk.

        Raises:
            OSError: The file cannot be written.
        """
        self._file.seek(self._end_bytes)
        self._file.truncate()
        self._file.write(f"{line}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end_bytes = self._file.tell()

    def replace(self, lines: Iterable[str]) -> None:
        """Write all lines to a new file that takes the place of this one, with its mode.

        Raises:
            OSError: The file cannot be written; it stays as it was.
        """
        content = "".join(f"{line}\n" for line in lines).encode()
        mode = stat.S_IMODE(os.fstat(self._file.fileno()).st_mode)
        with ExitStack() as opened:
            with atomic_write(self._path, mode=mode, is_durable=True) as draft:
                draft.write(content)
                new = opened.enter_context(open(os.dup(draft.fileno()), "r+b"))
                # Locked before another process can find it; the lock stays with the copy.
                fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
            opened.pop_all()
        self._file.close()
        self._file, self._end_bytes = new, len(content)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
