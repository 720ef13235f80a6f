"""Closing prices from a CSV, and the figures that the finance program's tools compute from them.

Plain functions over a plain table: no model, no runtime. Any CSV with the columns symbol, date and
price works, whether its rows are days or months. Months are written `YYYY-MM`; a range holds both
its ends. Returns, volatility, drawdown and correlation run from the last close BEFORE a range, as a
year's return does; where the data begins inside the range, they run from its first close.
"""

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import correlation as pearson
from statistics import stdev
from typing import Annotated, Literal

from pydantic import Field

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
DAYS_A_YEAR = 365.25

Month = Annotated[str, Field(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]
Metric = Literal["total_return", "annual_return", "volatility", "drawdown"]
Fact = dict[str, str | float | list[str]]


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
class Table:
    """Closing prices by symbol, each oldest first."""

    closes: dict[str, tuple[Close, ...]]

    @property
    def symbols(self) -> str:
        """The symbols as a prompt shows them."""
        return ", ".join(self.closes)

    def range(self, symbol: str, start: str | None, end: str | None, at_least: int = 1) -> "Range":
        """The closes of `symbol` from month `start` to month `end`; without one, the table's own.

        Raises:
            TableError: the symbol is unknown, no close lies in the range, or its path is shorter
                than `at_least` closes.
        """
        known = {name.upper(): name for name in self.closes}
        name = known.get(symbol.upper())
        if name is None:
            raise TableError(f"no symbol {symbol}")
        every = self.closes[name]
        within = tuple(c for c in every if (start or "") <= c.month <= (end or "9999-12"))
        if not within:
            raise TableError(f"{name} has data from {every[0].month} to {every[-1].month} only")
        earlier = [c for c in every if c.day < within[0].day]
        found = Range(earlier[-1] if earlier else None, within)
        if len(found.path) < at_least:
            raise TableError(f"{name} has only {len(found.path)} of {at_least} closes needed there")
        return found


@dataclass(frozen=True)
class Range:
    """Closes of one symbol from one month to another, oldest first, and the last one before."""

    before: Close | None
    within: tuple[Close, ...]

    @property
    def path(self) -> tuple[Close, ...]:
        """The closes between which the price moved in these months."""
        return self.within if self.before is None else (self.before, *self.within)


def load(path: Path) -> Table:
    """Read a CSV with the columns symbol, date and price; other columns are ignored.

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
    for line, row in enumerate(rows, start=2):
        try:
            close = Close(parse_day(row["date"]), parse_price(row["price"]))
        except (TypeError, ValueError) as error:
            raise TableError(
                f"{path}, line {line}: {error}", hint="correct the row or remove it"
            ) from error
        closes.setdefault(row["symbol"].strip(), []).append(close)
    return Table(
        {name: tuple(sorted(found, key=lambda c: c.day)) for name, found in closes.items()}
    )


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


def prices(table: Table, symbol: str, start: Month | None = None, end: Month | None = None) -> Fact:
    """First, last, low and high close."""
    found = table.range(symbol, start, end)
    every = [close.price for close in found.within]
    return _span(symbol, found) | {
        "first": every[0],
        "last": every[-1],
        "low": min(every),
        "high": max(every),
    }


def total_return(
    table: Table, symbol: str, start: Month | None = None, end: Month | None = None
) -> Fact:
    """Percent gained or lost in all."""
    found = table.range(symbol, start, end, at_least=2)
    return _span(symbol, found) | {"total_return_percent": round(_total_return(found.path), 2)}


def annual_return(
    table: Table, symbol: str, start: Month | None = None, end: Month | None = None
) -> Fact:
    """Percent gained or lost a year."""
    found = table.range(symbol, start, end, at_least=2)
    return _span(symbol, found) | {"annual_return_percent": round(_annual_return(found.path), 2)}


def volatility(
    table: Table, symbol: str, start: Month | None = None, end: Month | None = None
) -> Fact:
    """How much the returns vary, percent a year."""
    found = table.range(symbol, start, end, at_least=3)
    return _span(symbol, found) | {"volatility_percent": round(_volatility(found.path), 2)}


def drawdown(
    table: Table, symbol: str, start: Month | None = None, end: Month | None = None
) -> Fact:
    """Deepest fall from a peak, percent."""
    found = table.range(symbol, start, end, at_least=2)
    return _span(symbol, found) | {"max_drawdown_percent": round(_drawdown(found.path), 2)}


def compare(
    table: Table,
    metric: Metric,
    symbols: Annotated[list[str], Field(min_length=2, max_length=4)],
    start: Month | None = None,
    end: Month | None = None,
) -> Fact:
    """Which symbol has more of a metric."""
    needed = 3 if metric == "volatility" else 2
    found = {symbol: table.range(symbol, start, end, needed) for symbol in symbols}
    values = {symbol: round(METRICS[metric](one.path), 2) for symbol, one in found.items()}
    highest, lowest = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    gap = round(values[highest] - values[lowest], 2)
    return {
        "metric": metric,
        "highest": highest,
        "highest_value": values[highest],
        "lowest": lowest,
        "lowest_value": values[lowest],
        "gap": gap,
    }


def correlation(
    table: Table, first: str, second: str, start: Month | None = None, end: Month | None = None
) -> Fact:
    """How two symbols move together, -1 to 1."""
    ranges = [table.range(symbol, start, end, at_least=4) for symbol in (first, second)]
    left, right = ({c.day: c.price for c in one.path} for one in ranges)
    days = [day for day in left if day in right]
    moves = [_moves([side[day] for day in days]) for side in (left, right)]
    if len(days) < 4 or len(set(moves[0])) == 1 or len(set(moves[1])) == 1:
        raise TableError(f"{first} and {second} share too few moving days")
    shared = [c.month for c in ranges[0].within if c.day in right]
    span: Fact = {"first": first, "second": second, "start": shared[0], "end": shared[-1]}
    return span | {"correlation": round(pearson(*moves), 2)}


def _span(symbol: str, found: Range) -> Fact:
    return {"symbol": symbol, "start": found.within[0].month, "end": found.within[-1].month}


def _years(found: Sequence[Close]) -> float:
    return max((found[-1].day - found[0].day).days, 1) / DAYS_A_YEAR


def _moves(every: Sequence[float]) -> list[float]:
    return [new / old - 1 for old, new in pairwise(every)]


def _total_return(found: Sequence[Close]) -> float:
    return (found[-1].price / found[0].price - 1) * 100


def _annual_return(found: Sequence[Close]) -> float:
    return float((found[-1].price / found[0].price) ** (1 / _years(found)) - 1) * 100


def _volatility(found: Sequence[Close]) -> float:
    moves = _moves([close.price for close in found])
    return stdev(moves) * math.sqrt(len(moves) / _years(found)) * 100


def _drawdown(found: Sequence[Close]) -> float:
    peak, deepest = 0.0, 0.0
    for close in found:
        peak = max(peak, close.price)
        deepest = max(deepest, 1 - close.price / peak)
    return deepest * 100


METRICS: dict[Metric, Callable[[Sequence[Close]], float]] = {
    "total_return": _total_return,
    "annual_return": _annual_return,
    "volatility": _volatility,
    "drawdown": _drawdown,
}
