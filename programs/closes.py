"""A table of closing prices, read from a CSV, and ranges of its months.

Any CSV with the columns symbol, date and price works, whether its rows are days or months; a column
name may hold the companies' names. Months are written `YYYY-MM`; a range holds both its ends.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path

from agentrt.base.errors import ProgramError

COLUMNS = ("symbol", "date", "price")
DAY = re.compile(
    r"(\d{4}) (?: - (\d\d?) (?: - (\d\d?))? | / (\d\d?) / (\d\d?) )"
    r"| ([a-z]{3,9}) \s+ (\d\d?) \s+ (\d{4})",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


class TableError(ProgramError):
    """A table that cannot be read, or that does not hold what was asked of it."""


@dataclass(frozen=True)
class Close:
    """One closing price."""

    day: date
    price: float

    @property
    def month(self) -> str:
        """The month of this close, `YYYY-MM`."""
        return f"{self.day:%Y-%m}"


@dataclass(frozen=True)
class Span:
    """A range of months as a tool is asked for it.

    `months` counts from `start`, else back from `end`, else back from the last month of the table.
    """

    start: str | None = None
    end: str | None = None
    months: int | None = None

    def within(self, last: str) -> tuple[str, str]:
        """The first and the last month of this range in a table whose last month is `last`."""
        start, end = self.start, self.end
        if self.months is not None and start is not None and end is None:
            end = later(start, self.months - 1)
        elif self.months is not None and start is None:
            end = end or last
            start = later(end, 1 - self.months)
        return start or "", end or ""


def later(month: str, count: int) -> str:
    """The month that lies `count` months after `month`."""
    at = int(month[:4]) * 12 + int(month[5:]) - 1 + count
    return f"{at // 12:04}-{at % 12 + 1:02}"


@dataclass(frozen=True)
class Table:
    """Closing prices by symbol, each oldest first, and the names of companies by symbol."""

    closes: dict[str, tuple[Close, ...]]
    names: dict[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols, in the order of the file."""
        return tuple(self.closes)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """What names a symbol beyond doubt: each symbol itself, and each name that only it has."""
        count = Counter(name.upper() for name in self.names.values())
        taken = {symbol.upper() for symbol in self.closes}
        alone = (name for name in self.names.values() if count[name.upper()] == 1)
        return (*self.closes, *(name for name in alone if name.upper() not in taken))

    @property
    def first(self) -> str:
        """The first month of any symbol."""
        return min(every[0].month for every in self.closes.values())

    @property
    def last(self) -> str:
        """The last month of any symbol."""
        return max(every[-1].month for every in self.closes.values())

    @property
    def shown(self) -> str:
        """What a prompt shows of the table: its symbols, the names of companies, its months."""
        lines = [", ".join(self.symbols)]
        if self.names:
            lines.append("Names: " + ", ".join(f"{name} = {s}" for s, name in self.names.items()))
        return "\n".join((*lines, f"Data: {self.first} to {self.last}"))

    def symbol(self, said: str) -> str:
        """The symbol that is written or named so, in any case.

        Raises:
            TableError: there is none.
        """
        known = {name.upper(): symbol for symbol, name in self.names.items()}
        known |= {symbol.upper(): symbol for symbol in self.closes}
        if said.upper() not in known:
            raise TableError(f"no symbol {said}")
        return known[said.upper()]

    def holding(self, span: Span) -> tuple[str, ...]:
        """The symbols whose data hold a range; all of them where none does."""
        start, end = span.within(self.last)
        held = {s: (every[0].month, every[-1].month) for s, every in self.closes.items()}
        found = [s for s, (a, b) in held.items() if a[:4] <= (start or "9") and b[:4] >= end[:4]]
        return tuple(found) or self.symbols

    def shared(self, symbols: Sequence[str], span: Span) -> Span:
        """The range with its open ends closed, so that all `symbols` move over the same months."""
        firsts = {self.closes[symbol][0].month for symbol in symbols}
        lasts = {self.closes[symbol][-1].month for symbol in symbols}
        start, end = span.start, span.end
        if start is None and len(firsts) > 1:
            start = later(max(firsts), 1)  # the youngest has no close before its first month
        if end is None and len(lasts) > 1:
            end = min(lasts)
        return Span(start, end)

    def range(self, symbol: str, span: Span, at_least: int = 1) -> "Range":
        """The closes of `symbol` in `span`; an end that it leaves open is the symbol's own.

        Raises:
            TableError: the symbol is unknown, a year of the range lies outside its data, or its
                path is shorter than `at_least` closes.
        """
        name = self.symbol(symbol)
        every = self.closes[name]
        start, end = span.within(self.last)
        within = tuple(c for c in every if start <= c.month <= (end or "9999-12"))
        begins_early = bool(start) and start[:4] < every[0].month[:4]
        ends_late = bool(end) and end[:4] > every[-1].month[:4]
        if not within or begins_early or ends_late:
            raise TableError(f"{name} has data from {every[0].month} to {every[-1].month} only")
        earlier = [c for c in every if c.day < within[0].day]
        found = Range(name, earlier[-1] if earlier else None, within)
        if len(found.path) < at_least:
            raise TableError(f"{name} has only {len(found.path)} of {at_least} closes needed there")
        return found


@dataclass(frozen=True)
class Range:
    """Closes of one symbol from one month to another, oldest first, and the last one before."""

    symbol: str
    before: Close | None
    within: tuple[Close, ...]

    @property
    def path(self) -> tuple[Close, ...]:
        """The closes between which the price moved in these months."""
        return self.within if self.before is None else (self.before, *self.within)


def load(path: Path) -> Table:
    """Read a CSV with the columns symbol, date and price, and maybe name; others are ignored.

    Raises:
        TableError: the file, its header or a row cannot be read; names the line and the remedy.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(
            f"cannot read {path}: {error}",
            hint=f"give --data a CSV file with the columns {', '.join(COLUMNS)}",
        ) from error
    if not rows:
        raise TableError(
            f"{path} has no rows", hint=f"it needs the columns {', '.join(COLUMNS)}, a row a close"
        )
    missing = [column for column in COLUMNS if column not in rows[0]]
    if missing:
        raise TableError(
            f"{path}, line 1: no column {', '.join(missing)}; found {', '.join(rows[0])}",
            hint="rename the column",
        )
    closes: dict[str, list[Close]] = {}
    names: dict[str, str] = {}
    for line, row in enumerate(rows, start=2):
        try:
            close = Close(parse_day(row["date"]), parse_price(row["price"]))
        except (TypeError, ValueError) as error:
            raise TableError(
                f"{path}, line {line}: {error}", hint="correct the row or remove it"
            ) from error
        symbol, name = row["symbol"].strip(), (row.get("name") or "").strip()
        closes.setdefault(symbol, []).append(close)
        if name:
            names[symbol] = name
    ordered = {s: tuple(sorted(found, key=lambda c: c.day)) for s, found in closes.items()}
    return Table(ordered, names)


@lru_cache(maxsize=4096)  # a table has each day once for every symbol
def parse_day(text: str) -> date:
    """The day in `2005-01-31`, `2005/1/31`, `Jan 31 2005`; the 1st of `2005-01`."""
    found = DAY.fullmatch(text.strip())
    if found is not None:
        year, month, day, slash_month, slash_day, name, name_day, name_year = found.groups()
        if name:
            year, month, day = name_year, _month_of(name.lower()), name_day
        elif slash_month:
            month, day = slash_month, slash_day
        try:
            return date(int(year), int(month), int(day or 1))
        except ValueError:
            pass  # there is no such day
    raise ValueError(f"{text!r} is no date such as 2005-01-31 or Jan 31 2005")


def _month_of(name: str) -> int:
    """The number of a month by its English name, whole or three letters; 0 for another word."""
    return next((at for at, one in enumerate(MONTHS, 1) if name in (one, one[:3])), 0)


def parse_price(text: str) -> float:
    """A price above zero."""
    price = float(text)
    if not (price > 0 and math.isfinite(price)):
        raise ValueError(f"{text!r} is no price above zero")
    return price
