"""The figures that the finance program's tools compute from a table of closing prices.

Plain functions over a plain table: no model, no run. Each number comes as a `Figure`, with the
symbol, the metric and the period that it is a number of. Returns, volatility, drawdown and
correlation run from the last close BEFORE a range, as a year's return does; where the data begins
inside the range's first year, they run from its first close.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import correlation as pearson
from statistics import fmean, stdev
from typing import Annotated, Literal

from closes import Close, Range, Span, Table, TableError
from pydantic import BaseModel, Field

from agentrt import OneOf

DAYS_A_YEAR = 365.25
SHOWN_OF_A_RANKING = 5

Symbol = Annotated[str, OneOf(lambda table: table.identifiers)]
Month = Annotated[str, Field(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]
Months = Annotated[int, Field(ge=1, le=999)]
Metric = Literal["total_return", "annual_return", "volatility", "drawdown"]
Lack = Literal["symbol", "figure", "period", "future", "advice", "unclear"]


class Figure(BaseModel, frozen=True):
    """One number, and what it is a number of."""

    symbol: Annotated[str, Field(max_length=40)]
    metric: Annotated[str, Field(max_length=40)]
    period: Annotated[str, Field(max_length=40)]
    value: float


def prices(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """First, last, lowest, highest and average close."""
    found = table.range(symbol, Span(start, end, months))
    every = found.within
    if len(every) == 1:
        return [_at(found, "close", every[0])]
    lowest, highest = (pick(every, key=lambda close: close.price) for pick in (min, max))
    edges = {"first": every[0], "last": every[-1], "lowest": lowest, "highest": highest}
    average = round(fmean(close.price for close in every), 2)
    return [
        *(_at(found, f"{word} close", close) for word, close in edges.items()),
        _figure(found, "average close", average),
    ]


def total_return(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """Percent gained or lost in all."""
    return [_measured(table, "total_return", symbol, Span(start, end, months))]


def annual_return(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """Percent gained or lost a year."""
    return [_measured(table, "annual_return", symbol, Span(start, end, months))]


def volatility(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """How much the returns vary, percent a year."""
    return [_measured(table, "volatility", symbol, Span(start, end, months))]


def drawdown(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """Deepest fall from a peak, percent."""
    return [_measured(table, "drawdown", symbol, Span(start, end, months))]


def monthly_returns(
    table: Table,
    symbol: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """Best and worst month, months up and down."""
    found = table.range(symbol, Span(start, end, months), at_least=2)
    closes = [*{close.month: close for close in found.path}.values()]  # a month's last one
    moves = [(_total_return(pair), pair[1]) for pair in pairwise(closes)]
    if not moves:
        raise TableError(f"{found.symbol} has no month there with a close before it")
    best, worst = (pick(moves, key=lambda move: move[0]) for pick in (max, min))
    return [
        _at(found, "best month %", best[1], round(best[0], 2)),
        _at(found, "worst month %", worst[1], round(worst[0], 2)),
        _figure(found, "months up", sum(move > 0 for move, _ in moves)),
        _figure(found, "months down", sum(move < 0 for move, _ in moves)),
    ]


def compare(
    table: Table,
    metric: Metric,
    symbols: Annotated[list[Symbol], Field(min_length=2, max_length=20)] | None = None,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """Rank symbols, or all, by a metric."""
    span = Span(start, end, months)
    if symbols is None:
        asked = list(table.holding(span))
    else:
        asked = list(dict.fromkeys(table.symbol(one) for one in symbols))
        if len(asked) < 2:
            raise TableError(f"there is nothing to compare {asked[0]} with")
    shared = span if months else table.shared(asked, span)
    found = [_measured(table, metric, symbol, shared) for symbol in asked]
    ranked = sorted(found, key=lambda figure: -figure.value)
    if len(ranked) == 2:
        return [*ranked, _gap(*ranked)]
    if len(ranked) > SHOWN_OF_A_RANKING:
        return [*ranked[: SHOWN_OF_A_RANKING - 1], ranked[-1]]
    return ranked


def correlation(
    table: Table,
    first: Symbol,
    second: Symbol,
    start: Month | None = None,
    end: Month | None = None,
    months: Months | None = None,
) -> list[Figure]:
    """How two symbols move together, -1 to 1."""
    span = Span(start, end, months)
    if table.symbol(first) == table.symbol(second):
        raise TableError(f"there is nothing to compare {table.symbol(first)} with")
    ranges = [table.range(symbol, span, at_least=4) for symbol in (first, second)]
    left, right = ({c.day: c.price for c in one.path} for one in ranges)
    days = [day for day in left if day in right]
    moves = [_moves([side[day] for day in days]) for side in (left, right)]
    if len(days) < 4 or len(set(moves[0])) == 1 or len(set(moves[1])) == 1:
        raise TableError(f"{ranges[0].symbol} and {ranges[1].symbol} share too few moving days")
    shared = tuple(c for c in ranges[0].within if c.day in right)
    pair = Range(f"{ranges[0].symbol} & {ranges[1].symbol}", None, shared)
    return [_figure(pair, "correlation", round(pearson(*moves), 2))]


def unanswerable(table: Table, reason: Lack) -> list[Figure]:
    """Why closing prices do not answer."""
    del table
    raise TableError(LACKS[reason])


LACKS: dict[Lack, str] = {
    "symbol": "the table has no such symbol",
    "figure": "closing prices do not tell that figure",
    "period": "the table cannot tell which months are meant",
    "future": "past prices do not tell the future",
    "advice": "past prices are no advice",
    "unclear": "the question does not say which symbol or figure is meant",
}


def _figure(of: Range, metric: str, value: float) -> Figure:
    period = f"{of.within[0].month} to {of.within[-1].month}"
    return Figure(symbol=of.symbol, metric=metric, period=period, value=value)


def _at(of: Range, metric: str, close: Close, value: float | None = None) -> Figure:
    """A figure of one month of a range; by default the price of its close."""
    price = close.price if value is None else value
    return Figure(symbol=of.symbol, metric=metric, period=close.month, value=price)


def _measured(table: Table, metric: Metric, symbol: str, span: Span) -> Figure:
    found = table.range(symbol, span, at_least=3 if metric == "volatility" else 2)
    return _figure(found, SAID[metric], round(METRICS[metric](found.path), 2))


def _gap(highest: Figure, lowest: Figure) -> Figure:
    """By how much one of two is ahead, of the months that the first is about."""
    value = round(highest.value - lowest.value, 2)
    changes = {"symbol": f"{highest.symbol} & {lowest.symbol}", "value": value}
    return highest.model_copy(update=changes | {"metric": f"{highest.metric} gap"})


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
SAID: dict[Metric, str] = {
    "total_return": "total return %",
    "annual_return": "annual return %",
    "volatility": "volatility %",
    "drawdown": "max drawdown %",
}
