"""The servers that a user drains, in a file that running fleets look at."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from agentrt.base.atomic_write import write_atomically
from agentrt.base.errors import UsageError
from agentrt.base.private_files import FILE_MODE, make_private_folder
from agentrt.base.user_folders import state_folder

FILE_NAME = "drained.json"
MAX_FILE_BYTES = 1 << 20


class DrainList:
    """The addresses that get no new requests.

    Args:
        path: The file. One that is not there, or cannot be read, names none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._urls: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> DrainList:
        """The user's list, in the state folder."""
        return cls(state_folder(environment) / FILE_NAME)

    def urls(self) -> frozenset[str]:
        """Base addresses on the list now; the file is read if it has changed."""
        try:
            status = os.stat(self._path)
        except OSError:
            self._seen, self._urls = None, frozenset()
            return self._urls
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen, self._urls = seen, self._read()
        return self._urls

    def note(self, url: str, *, drained: bool) -> None:
        """Put an address on the list, or take it off.

        Args:
            url: Base address of a server.
            drained: Whether it is to get no new requests.

        Raises:
            UsageError: The file cannot be written.
        """
        try:
            make_private_folder(self._path.parent)
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another process may change the list meanwhile
                urls = self._read() | {url} if drained else self._read() - {url}
                write_atomically(self._path, json.dumps(sorted(urls)).encode(), mode=FILE_MODE)
        except OSError as error:
            raise UsageError(
                f"cannot write {self._path}: {error.strerror}",
                hint="Give a state folder by XDG_STATE_HOME that can be written",
            ) from None

    def _read(self) -> frozenset[str]:
        try:
            with self._path.open("rb") as opened:
                found = json.loads(opened.read(MAX_FILE_BYTES))
        except (OSError, ValueError, RecursionError):
            return frozenset()
        if not isinstance(found, list):
            return frozenset()
        return frozenset(one for one in found if isinstance(one, str))
