"""Answers in one SQLite file, shared by the processes of one user.

The file has the mode 0600: answers are data of the user. Those that were used longest ago are
dropped beyond `max_bytes`, and all that are older than `max_age_s`. A cache that is damaged is
moved aside with one line, and begins anew. Any other file is left alone: its path was a mistake.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agentrt.base.private_files import make_private_file, make_private_folder
from agentrt.runtime.response_cache.store import (
    MAX_AGE_S,
    MAX_BYTES,
    Found,
    StoreError,
    StoreStats,
)

VERSION = 1
APPLICATION_ID = 0x61727463
"""Mark of the file among those of other programs; see `PRAGMA application_id`."""

_MAGIC, _ID_BYTES = b"SQLite format 3\0", slice(68, 72)

BUSY_S = 2.0
TOUCH_S = 60.0
"""An answer is noted as used again after so long, so that most hits write nothing."""

SWEEPS = 64
"""Answers are dropped after each so-many-th part of `max_bytes` that is written."""

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS responses (key TEXT PRIMARY KEY, value BLOB NOT NULL,"
    " stored_unix_s REAL NOT NULL, used_unix_s REAL NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON responses (used_unix_s)",
    "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, holder TEXT NOT NULL,"
    " until_unix_s REAL NOT NULL) WITHOUT ROWID",
)

T = TypeVar("T")
_log = logging.getLogger("agentrt")


class SqliteStore:
    """One file of answers.

    Args:
        path: The file; it and its folder are made at the first use.
        max_bytes: Most bytes of values, about.
        max_age_s: Time for which an answer is kept.
        unix_s: The clock, in seconds since the epoch: leases hold between processes.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._unix_s = unix_s
        self._database: sqlite3.Connection | None = None
        self._unswept_bytes = max_bytes  # the first answer sweeps

    @property
    def place(self) -> str:
        return str(self.path)

    def find(self, key: str, holder: str, lease_s: float) -> Found:
        return self._guarded(lambda database: self._find(database, key, holder, lease_s))

    def put(self, key: str, value: bytes, holder: str) -> None:
        self._guarded(lambda database: self._put(database, key, value, holder))

    def renew(self, keys: Sequence[str], holder: str, lease_s: float) -> None:
        until_s = self._unix_s() + lease_s
        rows = [(until_s, key, holder) for key in keys]
        self._guarded(
            lambda database: database.executemany(
                "UPDATE leases SET until_unix_s = ? WHERE key = ? AND holder = ?", rows
            )
        )

    def release(self, key: str, holder: str) -> None:
        self._guarded(lambda database: _release(database, key, holder))

    def remove(self, key: str) -> None:
        self._guarded(
            lambda database: database.execute("DELETE FROM responses WHERE key = ?", (key,))
        )

    def clear(self) -> int:
        def clear(database: sqlite3.Connection) -> int:
            with _writing(database):
                dropped = database.execute("DELETE FROM responses").rowcount
                database.execute("DELETE FROM leases")
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return dropped

        return self._guarded(clear) if self.path.exists() else 0

    def stats(self) -> StoreStats:
        def stats(database: sqlite3.Connection) -> StoreStats:
            count, size = database.execute(
                "SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM responses"
            ).fetchone()
            return StoreStats(self.place, count, size)

        return self._guarded(stats) if self.path.exists() else StoreStats(self.place, 0, 0)

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                database.close()

    def _find(self, database: sqlite3.Connection, key: str, holder: str, lease_s: float) -> Found:
        now_s = self._unix_s()
        value = self._value(database, key, now_s)
        if value is not None:
            return Found(value)
        with _writing(database):
            value = self._value(database, key, now_s)  # it may have come just now
            if value is not None:
                return Found(value)
            line = database.execute(
                "SELECT holder, until_unix_s FROM leases WHERE key = ?", (key,)
            ).fetchone()
            if line is not None and line[0] != holder and line[1] > now_s:
                return Found()
            database.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (key, holder, now_s + lease_s)
            )
        return Found(is_leased=True)

    def _value(self, database: sqlite3.Connection, key: str, now_s: float) -> bytes | None:
        line = database.execute(
            "SELECT value, used_unix_s FROM responses WHERE key = ? AND stored_unix_s > ?",
            (key, now_s - self._max_age_s),
        ).fetchone()
        if line is None:
            return None
        if line[1] < now_s - TOUCH_S:
            database.execute("UPDATE responses SET used_unix_s = ? WHERE key = ?", (now_s, key))
        return bytes(line[0])

    def _put(self, database: sqlite3.Connection, key: str, value: bytes, holder: str) -> None:
        now_s = self._unix_s()
        with _writing(database):
            _release(database, key, holder)
            if len(value) > self._max_bytes // 4:
                return  # it would displace most of the others
            database.execute(
                "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?)", (key, value, now_s, now_s)
            )
            self._unswept_bytes += len(value)
            sweeps = self._unswept_bytes >= self._max_bytes // SWEEPS
            if sweeps:
                self._sweep(database, now_s)
        if sweeps:
            self._unswept_bytes = 0
            database.execute("PRAGMA incremental_vacuum").fetchall()

    def _sweep(self, database: sqlite3.Connection, now_s: float) -> None:
        """Drop what is too old, and what was used longest ago if there is too much."""
        database.execute("DELETE FROM leases WHERE until_unix_s <= ?", (now_s,))
        database.execute(
            "DELETE FROM responses WHERE stored_unix_s <= ?", (now_s - self._max_age_s,)
        )
        database.execute(
            "DELETE FROM responses WHERE key IN (SELECT key FROM (SELECT key, SUM(LENGTH(value))"
            " OVER (ORDER BY used_unix_s DESC, rowid DESC) AS total FROM responses)"
            " WHERE total > ?)",
            (self._max_bytes,),
        )

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Work on the open file; one that is broken is moved aside once.

        Raises:
            StoreError: The file cannot be used.
        """
        try:
            return work(self._open())
        except sqlite3.OperationalError as error:  # locked, read-only, full: nothing is broken
            self.close()
            raise StoreError(f"{self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            self.close()
            self._set_aside(str(error))
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror or error}") from None
        try:
            return work(self._open())
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StoreError(f"{self.path}: {error}") from None

    def _open(self) -> sqlite3.Connection:
        if self._database is not None:
            return self._database
        head = self._head()
        if head and not head.startswith(_MAGIC):
            raise self._left_alone()
        if not head:
            make_private_folder(self.path.parent)
            make_private_file(self.path)  # its log and index take their rights from it
        database = sqlite3.connect(
            self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            if self._is_new(database):
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                # Before the log: the mark has to stand in the file itself.
                database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                database.execute("PRAGMA journal_mode = WAL").fetchall()
            database.execute("PRAGMA synchronous = NORMAL")
            with _writing(database):
                for statement in _SCHEMA:
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            database.close()
            raise
        self._database = database
        return database

    def _head(self) -> bytes:
        """The beginning of the file, up to its mark; b"" if it is empty or missing."""
        try:
            with self.path.open("rb") as file:
                return file.read(_ID_BYTES.stop)
        except FileNotFoundError:
            return b""

    def _left_alone(self) -> StoreError:
        return StoreError(f"{self.path} is no response cache, and is left alone")

    def _is_new(self, database: sqlite3.Connection) -> bool:
        """Whether nothing has been made in the file; it is only read.

        Raises:
            StoreError: The file is of another program, or of a later release.
        """
        tables, program, version = database.execute(
            "SELECT (SELECT COUNT(*) FROM sqlite_master), application_id, user_version"
            " FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if program != APPLICATION_ID and (tables or program or version):
            raise self._left_alone()
        if version > VERSION:
            raise StoreError(f"{self.path} was written by a later agentrt, and is left alone")
        return not version

    def _set_aside(self, reason: str) -> None:
        if self._head()[_ID_BYTES] != APPLICATION_ID.to_bytes(4, "big"):
            raise self._left_alone()
        from agentrt.base.sqlite_file import move_aside  # rare

        try:
            aside = move_aside(self.path)
        except OSError as error:
            raise StoreError(f"{self.path}: {reason}, and it cannot be moved: {error}") from None
        _log.warning(
            "%s: %s; it is kept as %s, and the response cache begins anew", self.path, reason, aside
        )


def _release(database: sqlite3.Connection, key: str, holder: str) -> None:
    database.execute("DELETE FROM leases WHERE key = ? AND holder = ?", (key, holder))


@contextmanager
def _writing(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction that no other process writes in."""
    database.execute("BEGIN IMMEDIATE")
    with database:
        yield
