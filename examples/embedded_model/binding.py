"""Whether a report says each value of the symbol, the metric and the period that it belongs to, and names the right winner.

A report can be grounded and wrong: "AAPL gained 50.85 %, IBM 448.06 %" when it was the other way round. A figure of a
report must be a figure that a tool computed, whole. In the answer a value must be that of a figure of the very symbol,
metric and months that its clause names; and what is said to be higher or lower must be so. Nothing but symbols, metrics,
numbers, months and comparatives is read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpus.finance import market
from judging import MONTH, NUMBER, numbers, symbols

CLAUSE = re.compile(r"[,;:.!?](?=\s|$)")
SYMBOL = r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*"
MORE = frozenset({"higher", "highest", "more", "most", "larger", "largest", "greater", "greatest", "deeper", "deepest"})  # fmt: skip
LESS = frozenset({"lower", "lowest", "less", "least", "smaller", "smallest"})
ACRONYMS = frozenset({"CAGR", "USD"})
METRICS = (
    "total return",
    "annual return",
    "volatility",
    "drawdown",
    "first close",
    "last close",
    "lowest close",
    "highest close",
    "correlation",
)
WORD = re.compile(rf"{'|'.join(METRICS)}|{MONTH}|{NUMBER}(?![A-Za-z0-9.-]*[A-Za-z])|{SYMBOL}")

Result = Sequence[market.Figure] | str
Said = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Holding:
    """Values that a result gives to a symbol, or to several together, and the metric and the months that they are of."""

    symbols: frozenset[str]
    values: frozenset[str]
    metric: str = ""
    months: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Order:
    """What a comparison found."""

    highest: str
    lowest: str


def bound(report: Mapping[str, Any], results: Sequence[Result]) -> bool:
    """Whether each value of the report belongs to what it is said of, and each comparison is true.

    Args:
        report: A `Report` as a mapping, with `figures` and `answer`.
        results: What each tool returned, or the text of its error.
    """
    computed = [figure for result in results if not isinstance(result, str) for figure in result]
    holdings = [holding for result in results for holding in held(result)]
    orders = [order for result in results for order in ordered(result)]
    names = frozenset(symbol for holding in holdings for symbol in holding.symbols)
    clauses = [read(clause, names) for clause in CLAUSE.split(str(report["answer"]))]
    return (
        all(market.Figure(**figure) in computed for figure in report["figures"])
        and all(belongs(said, holdings) for said in inherited(clauses))
        and all(true(clause, orders) for clause in clauses)
    )


def held(result: Result) -> list[Holding]:
    """The values of a result by symbol; the text of an error gives its numbers to the symbols it names."""
    if isinstance(result, str):
        named = frozenset(re.findall(r"\b[A-Z][A-Z0-9]+\b", result))
        return [Holding(named, frozenset(numbers(result)))]
    return [
        Holding(
            symbols(figure.symbol),
            frozenset(numbers(str(figure.value))),
            next((metric for metric in METRICS if metric in figure.metric), figure.metric),
            frozenset(figure.period.split(" to ")),
        )
        for figure in result
    ]


def ordered(result: Result) -> list[Order]:
    """What a comparison found; none when there was a tie."""
    if isinstance(result, str):
        return []
    placed = [figure for figure in result if not figure.metric.endswith(" gap")]
    if len({figure.symbol for figure in placed}) < 2 or placed[0].value == placed[-1].value:
        return []
    return [Order(placed[0].symbol.upper(), placed[-1].symbol.upper())]


def read(text: str, names: frozenset[str]) -> Said:
    """The symbols, metrics, months, values and comparatives of a text, in its order."""
    said: Said = []
    for word in WORD.findall(text):
        if word in METRICS:
            said.append(("metric", word))
        elif word.upper() in names or is_ticker(word):
            said.append(("symbol", word.upper()))
        elif re.fullmatch(MONTH, word):
            said.append(("month", word))
        elif re.fullmatch(NUMBER, word):
            said.append(("value", str(float(word))))
        elif word.lower() in MORE | LESS:
            said.append(("comparative", word.lower()))
    return said


def is_ticker(word: str) -> bool:
    """Whether a word looks like a symbol, known or not."""
    return len(word) > 1 and word.isalpha() and word.isupper() and word not in ACRONYMS


def picked(said: Said, kind: str) -> list[str]:
    """The words of one kind, in order."""
    return [word for found, word in said if found == kind]


def inherited(clauses: Sequence[Said]) -> list[Said]:
    """The clauses, where one that names no symbol is about the only symbol of the last clause that does; metrics likewise."""
    last: dict[str, list[str]] = {"symbol": [], "metric": []}
    found = []
    for clause in clauses:
        for kind, about in last.items():
            named = list(dict.fromkeys(picked(clause, kind)))
            if not named and len(about) == 1:
                clause = [(kind, about[0]), *clause]
            last[kind] = named or about
        found.append(clause)
    return found


def belongs(said: Said, holdings: Sequence[Holding]) -> bool:
    """Whether each value of a clause belongs to its symbol, metric and months, in one of the ways to read which symbol that is."""
    named = frozenset(picked(said, "symbol"))
    metrics = frozenset(picked(said, "metric"))
    months = frozenset(picked(said, "month"))
    about = [h for h in holdings if not named or h.symbols & named]
    if not all(any(month in h.values | h.months for h in about) for month in months):
        return False

    def holds(holding: Holding, symbol: str, value: str) -> bool:
        return (
            (not symbol or symbol in holding.symbols)
            and (len(named) < 2 or holding.symbols <= named)  # a pair's value is of that pair
            and (not metrics or not holding.metric or holding.metric in metrics)
            and (not months or not holding.months or months <= holding.months)
            and value in holding.values
        )

    return any(
        all(any(holds(h, symbol, value) for h in about) for symbol, value in reading)
        for reading in readings(said)
    )


def readings(said: Said) -> list[list[tuple[str, str]]]:
    """Which symbol each value is said of: the one before it, the one after it, or first of first and so on."""
    before, after = _nearest(said), _nearest(said[::-1])[::-1]
    symbols_, values = picked(said, "symbol"), picked(said, "value")
    in_turn = [list(zip(symbols_, values, strict=True))] if len(symbols_) == len(values) else []
    return [before, after, *in_turn]


def _nearest(said: Said) -> list[tuple[str, str]]:
    """Each value with the last symbol before it, else with the first one; "" without any."""
    last = next(iter(picked(said, "symbol")), "")
    found = []
    for kind, word in said:
        if kind == "symbol":
            last = word
        elif kind == "value":
            found.append((last, word))
    return found


def true(said: Said, orders: Sequence[Order]) -> bool:
    """Whether what a clause calls higher or lower is so in a comparison; without one there is nothing to tell."""
    last = next(iter(picked(said, "symbol")), "")
    for kind, word in said:
        if kind == "symbol":
            last = word
        elif kind == "comparative" and last and orders:
            side = "highest" if word in MORE else "lowest"
            if not any(getattr(order, side) == last for order in orders):
                return False
    return True
