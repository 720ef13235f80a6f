"""The file of learned quantities: read when a runtime opens, written while it runs.

Several processes may use it at once. What a process has learned since it last read or wrote the
file is added to the rows that are there then, in one transaction; forgotten rows stay forgotten.
Nothing here may fail a run: a file that cannot be read is moved aside, one that cannot be written
is left alone, each with one warning. Rows that were not added to for `KEEP_DAYS` are dropped:
programs are renamed, and their lines move.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from agentrt.base.private_files import make_private_file, make_private_folder
from agentrt.runtime.estimate_store.anchor import anchored, shown
from agentrt.scheduler.estimates.row import (
    CALLS,
    EstimateRow,
    RowKey,
    merge_rows,
    parse_sums,
    respell,
)

VERSION = 2
MOST_ROWS = 50_000
MOST_CALLS = 2048
"""Rows of tool calls, which are longer than others: up to some 4 kB each."""

KEEP_DAYS = 90.0
SWEEP_EVERY_S = 3600.0
_DAY_S = 86_400.0
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
_KEPT = "changed_unix_s >= ?"
_FIND = "engines = ? AND template = ? AND site = ? AND depth = ? AND quantity = ?"

_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

T = TypeVar("T")
_log = logging.getLogger("agentrt")


class EstimateStore:
    """One file of learned quantities.

    Args:
        path: Path of the file; its folder is made at the first write.
        folder: Folder relative to which call sites are named; by default the working directory.
    """

    def __init__(self, path: Path, folder: str | None = None) -> None:
        self.path = path
        self._folder = os.getcwd() if folder is None else folder
        # Rows by engines and key, as of the last reading or writing here.
        self._base: dict[tuple[str, RowKey], EstimateRow] = {}
        self._is_ours = True  # False if a later version wrote the file, which is then left alone
        self._sweep_at_s: float | None = None
        self._warned: set[str] = set()

    def load(self, engines: str, *, now_unix_s: float | None = None) -> list[EstimateRow]:
        """All rows of these engines, the latest last; [] if the file cannot be read."""
        since_s = _since_s(time.time() if now_unix_s is None else now_unix_s)
        rows = [row for _, row in self._all(f"engines = ? AND {_KEPT}", engines, since_s)]
        self._base.update({(engines, row.key): row for row in rows})
        return rows

    def save(
        self, engines: str, rows: Iterable[EstimateRow], *, now_unix_s: float | None = None
    ) -> bool:
        """Add what was learned since the file was last read or written here.

        Args:
            engines: Engines on which it was learned.
            rows: Current rows; rows that have not changed may be left out.
            now_unix_s: Current time since the epoch; None reads the clock.

        Returns:
            False if it is worth trying again.
        """
        at_s = time.time() if now_unix_s is None else now_unix_s
        changed = [row for row in rows if self._count(engines, row.key) != row.count]
        if not changed or not self._is_ours:
            return True
        if self._guarded(lambda: self._write(engines, changed, at_s), otherwise=False):
            return True
        if self.path.exists():
            return False
        # The file was broken and has been moved aside.
        return self._guarded(lambda: self._write(engines, changed, at_s), otherwise=False)

    def all_rows(self) -> list[tuple[str, EstimateRow]]:
        """All rows, each with the engines on which it was learned."""
        return self._all(_KEPT, _since_s(time.time()))

    def forget(self, site: str = "*") -> int:
        """Drop the rows of call sites and programs that fit a pattern, and count them."""
        if not self.path.exists():
            return 0
        return self._guarded(lambda: self._drop(site), 0)

    def set_aside(self, reason: str) -> None:
        """Keep a broken file, or one of another program, under another name and begin anew."""
        from agentrt.base.sqlite_file import move_aside  # rare

        try:
            aside = move_aside(self.path)
        except OSError as error:
            self._warn(f"{self.path}: {reason}, and it cannot be moved aside: {error}")
            return
        self._base.clear()
        self._warn(f"{self.path}: {reason}; it is kept as {aside}, and learning begins anew")

    def _warn(self, message: str) -> None:
        """Warn once: a full disk would otherwise warn every few seconds."""
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)

    def _all(self, where: str, *given: object) -> list[tuple[str, EstimateRow]]:
        if not self.path.exists():
            return []
        nothing: list[tuple[str, EstimateRow]] = []
        return self._guarded(lambda: list(self._read(where, *given)), nothing)

    def _count(self, engines: str, key: RowKey) -> int:
        base = self._base.get((engines, key))
        return 0 if base is None else base.count

    def _guarded(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return _patiently(work)
        except sqlite3.OperationalError as error:  # locked, read-only, full: nothing is broken
            self._warn(f"{self.path}: {error}; what was learned is not kept")
        except (sqlite3.DatabaseError, ValueError) as error:
            self.set_aside(f"cannot be read ({error})")
        except OSError as error:
            self._warn(f"{self.path}: {error}; what was learned is not kept")
        return otherwise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            self._is_ours = version <= VERSION
            if version == 0:
                database.execute("PRAGMA journal_mode = WAL")
            if version < VERSION:
                _set_up(database)
            if not self._is_ours:
                self._warn(
                    f"{self.path} was written by a later agentrt and is left alone: nothing is "
                    "learned from it or kept; AGENTRT_ESTIMATES names another file"
                )
            database.execute("PRAGMA synchronous = NORMAL")
            yield database

    def _read(self, where: str, *given: object) -> Iterator[tuple[str, EstimateRow]]:
        with self._open() as database:
            if not self._is_ours:
                return
            ask = f"SELECT * FROM estimates WHERE {where} ORDER BY changed_unix_s"
            for line in database.execute(ask, given):
                yield line[0], self._here(_row(line))

    def _here(self, row: EstimateRow) -> EstimateRow:
        return respell(row, lambda place: shown(place, self._folder))

    def _there(self, row: EstimateRow) -> EstimateRow:
        return respell(row, lambda place: anchored(place, self._folder))

    def _write(self, engines: str, rows: Sequence[EstimateRow], at_s: float) -> bool:
        make_private_folder(self.path.parent)
        make_private_file(self.path)  # its log and index take their rights from it
        with self._open() as database:
            if not self._is_ours:
                return True
            database.execute("BEGIN IMMEDIATE")
            with database:
                for mine in rows:
                    name = _named(engines, self._there(mine))
                    line = database.execute(
                        f"SELECT * FROM estimates WHERE {_FIND}", name
                    ).fetchone()
                    stored = None if line is None else self._here(_row(line))
                    row = merge_rows(stored, self._base.get((engines, mine.key)), mine)
                    sums = json.dumps(self._there(row).sums, allow_nan=False)
                    database.execute(
                        "INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        (*name, row.count, sums, at_s),
                    )
                if self._sweep_at_s is None or at_s >= self._sweep_at_s:
                    _sweep(database, at_s)
                    self._sweep_at_s = at_s + SWEEP_EVERY_S
        self._base.update({(engines, row.key): row for row in rows})
        return True

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
                    if fits(site, shown(line[1], self._folder), shown(line[2], self._folder))
                ]
                database.executemany(f"DELETE FROM estimates WHERE {_FIND}", keys)
        self._base.clear()
        return len(keys)


def _since_s(now_unix_s: float) -> float:
    return now_unix_s - KEEP_DAYS * _DAY_S


def _set_up(database: sqlite3.Connection) -> None:
    """Make the table, or drop the rows of an earlier version, which did not keep folders."""
    database.execute("BEGIN IMMEDIATE")
    with database:
        if database.execute("PRAGMA user_version").fetchone()[0] < VERSION:
            database.execute(_SCHEMA)
            database.execute("DELETE FROM estimates")
            database.execute(f"PRAGMA user_version = {VERSION}")


def _sweep(database: sqlite3.Connection, now_unix_s: float) -> None:
    """Drop rows that are too old, and the oldest ones if there are too many."""
    database.execute(f"DELETE FROM estimates WHERE NOT {_KEPT}", (_since_s(now_unix_s),))
    for which, most in ((f"quantity = '{CALLS}'", MOST_CALLS), ("1", MOST_ROWS)):
        database.execute(
            f"DELETE FROM estimates WHERE {which} AND changed_unix_s < (SELECT changed_unix_s FROM "
            f"estimates WHERE {which} ORDER BY changed_unix_s DESC LIMIT 1 OFFSET ?)",
            (most - 1,),
        )


def _patiently(work: Callable[[], T]) -> T:
    """Try again while another process holds the file.

    SQLite waits for most locks, but not for those of a file that is being set up or closed.
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
    """Whether a call site or its program fits a pattern of the kind of file names."""
    return any(fnmatchcase(name, pattern) for name in (site, template, site.partition(" ")[0]))


def _named(engines: str, row: EstimateRow) -> tuple[str, str, str, str, str]:
    depth = "" if row.depth is None else str(row.depth)
    return (engines, row.template, row.site, depth, row.quantity)


def _row(line: Sequence[object]) -> EstimateRow:
    """The row of a line of the table.

    Raises:
        ValueError: The line was not written by this package.
    """
    _, template, site, depth, quantity, count, text, _ = line
    try:
        sums = parse_sums(json.loads(str(text)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what is kept of {site!r} is no row of ours: {error}") from None
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"what is kept of {site!r} is no row of ours: it counts {count!r}")
    where = int(str(depth)) if depth != "" else None
    return EstimateRow(str(template), str(site), where, str(quantity), count, sums)
