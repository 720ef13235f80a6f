"""The file of learned quantities: read when a runtime opens, written when it closes.

Several processes may use it at once: what each has learned since it read the file is added to what
stands there then. Nothing here may fail a run: a file that cannot be read is moved aside, one that
cannot be written is left, each with a warning.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from agentrt.store.row import Key, Row, merged

VERSION = 1
MOST_ROWS = 50_000
BUSY_S = 5.0
RETRY_S = 0.02
_SCHEMA = """
CREATE TABLE IF NOT EXISTS estimates (
    engines TEXT NOT NULL,
    template TEXT NOT NULL,
    site TEXT NOT NULL,
    depth TEXT NOT NULL,
    quantity TEXT NOT NULL,
    count INTEGER NOT NULL,
    sums TEXT NOT NULL,
    changed_unix_s REAL NOT NULL,
    PRIMARY KEY (engines, template, site, depth, quantity)
) WITHOUT ROWID
"""
_FIND = "engines = ? AND template = ? AND site = ? AND depth = ? AND quantity = ?"

_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

T = TypeVar("T")
_log = logging.getLogger("agentrt")


class EstimateStore:
    """One file of learned quantities.

    Args:
        path: Of the file; its folder is made when something is written.
        decay: By which an observation weighs earlier ones.
    """

    def __init__(self, path: Path, decay: float) -> None:
        self.path = path
        self._decay = decay
        # By engines and key: what was learned here when it was last read or written, and the
        # count that the file had then.
        self._base: dict[tuple[str, Key], tuple[Row, int]] = {}
        self._is_ours = True  # else a later version wrote it, and it is left alone

    def load(self, engines: str) -> list[Row]:
        """Everything that was learned on these engines; [] when that cannot be read."""
        if not self.path.exists():
            return []
        read: list[tuple[str, Row]] = []
        read = self._guarded(lambda: list(self._read("engines = ?", engines)), read)
        rows = [row for _, row in read]
        self._base.update({(engines, row.key): (row, row.count) for row in rows})
        return rows

    def save(self, engines: str, rows: Iterable[Row], *, now_unix_s: float | None = None) -> None:
        """Add what was learned since `load`; rows that have not changed may be left out."""
        at_s = time.time() if now_unix_s is None else now_unix_s
        changed = [row for row in rows if self._count(engines, row.key) != row.count]
        if changed and self._is_ours:
            self._guarded(lambda: self._write(engines, changed, at_s), None)

    def all(self) -> list[tuple[str, Row]]:
        """Everything with the engines that it was learned on."""
        return self._guarded(lambda: list(self._read("1")), []) if self.path.exists() else []

    def forget(self, site: str = "*") -> int:
        """Drop what was learned of call sites and programs that fit a pattern; how many rows."""
        if not self.path.exists():
            return 0
        return self._guarded(lambda: self._drop(site), 0)

    def set_aside(self, reason: str) -> None:
        """The file is none of ours, or broken: keep it under another name and begin anew."""
        aside = self.path.with_name(f"{self.path.name}.broken-{time.time_ns()}")
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            try:
                part.rename(aside.with_name(aside.name + suffix))
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s: %s, and it cannot be moved aside: %s", part, reason, error)
                return
        self._base.clear()
        _log.warning("%s: %s; it is kept as %s, and learning begins anew", self.path, reason, aside)

    def _count(self, engines: str, key: Key) -> int:
        base = self._base.get((engines, key))
        return 0 if base is None else base[0].count

    def _guarded(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return _patiently(work)
        except sqlite3.OperationalError as error:  # locked, read-only, full: nothing is broken
            _log.warning("%s: %s; what was learned is not kept", self.path, error)
        except (sqlite3.DatabaseError, ValueError) as error:
            self.set_aside(f"cannot be read ({error})")
        except OSError as error:
            _log.warning("%s: %s; what was learned is not kept", self.path, error)
        return otherwise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            self._is_ours = version <= VERSION
            if version == 0:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(_SCHEMA)
                database.execute(f"PRAGMA user_version = {VERSION}")
            if not self._is_ours:
                _log.warning("%s was written by a later agentrt and is left alone", self.path)
            database.execute("PRAGMA synchronous = NORMAL")
            yield database

    def _read(self, where: str, *given: str) -> Iterator[tuple[str, Row]]:
        with self._open() as database:
            if not self._is_ours:
                return
            for line in database.execute(f"SELECT * FROM estimates WHERE {where}", given):
                yield line[0], _row(line)

    def _write(self, engines: str, rows: Sequence[Row], at_s: float) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._open() as database:
            if not self._is_ours:
                return
            database.execute("BEGIN IMMEDIATE")
            with database:
                for mine in rows:
                    base, known_count = self._base.get((engines, mine.key), (None, 0))
                    row = mine
                    line = database.execute(
                        f"SELECT * FROM estimates WHERE {_FIND}", _named(engines, mine)
                    ).fetchone()
                    if line is not None and line[5] != known_count:
                        row = merged(_row(line), base, mine, self._decay)
                    sums = json.dumps(row.sums, allow_nan=False)
                    database.execute(
                        "INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        (*_named(engines, row), row.count, sums, at_s),
                    )
                    self._base[engines, mine.key] = (mine, row.count)
                database.execute(
                    "DELETE FROM estimates WHERE changed_unix_s < (SELECT changed_unix_s FROM "
                    "estimates ORDER BY changed_unix_s DESC LIMIT 1 OFFSET ?)",
                    (MOST_ROWS,),
                )

    def _drop(self, site: str) -> int:
        with self._open() as database:
            if not self._is_ours:
                return 0
            database.execute("BEGIN IMMEDIATE")
            with database:
                keys = [
                    line
                    for line in database.execute(
                        "SELECT engines, template, site, depth, quantity FROM estimates"
                    )
                    if fits(site, line[1], line[2])
                ]
                database.executemany(f"DELETE FROM estimates WHERE {_FIND}", keys)
        self._base.clear()
        return len(keys)


def _patiently(work: Callable[[], T]) -> T:
    """Try again while another process holds the file.

    SQLite itself waits for most locks, but not for those of a file that is being set up or closed.
    """
    give_up_at_s = time.monotonic() + BUSY_S
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _HELD or time.monotonic() >= give_up_at_s:
                raise
            time.sleep(RETRY_S)


def fits(pattern: str, template: str, site: str) -> bool:
    """Whether a call site, or its program, fits a pattern as of file names."""
    return any(fnmatchcase(name, pattern) for name in (site, template, site.partition(" ")[0]))


def _named(engines: str, row: Row) -> tuple[str, str, str, str, str]:
    depth = "" if row.depth is None else str(row.depth)
    return (engines, row.template, row.site, depth, row.quantity)


def _row(line: Sequence[object]) -> Row:
    """Raises `ValueError` where somebody else has written into the table."""
    _, template, site, depth, quantity, count, text, _ = line
    sums = json.loads(str(text))
    if not isinstance(sums, dict) or not isinstance(count, int):
        raise ValueError(f"what is kept of {site!r} is no row of ours")
    numbers = {str(name): float(value) for name, value in sums.items()}
    where = int(str(depth)) if depth != "" else None
    return Row(str(template), str(site), where, str(quantity), count, numbers)
