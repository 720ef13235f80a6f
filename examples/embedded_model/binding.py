"""Whether a report says each value of the symbol that it belongs to, and names the right winner.

A report can be grounded and wrong: "AAPL gained 50.85 %, IBM 448.06 %" when it was the other way round. Here a value
must stand in a result of the very symbol that its clause names, and of the months that its clause names; and what is
said to be higher or lower must be so. Nothing but symbols, numbers, months and comparatives is read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judging import MONTH, NUMBER, numbers

CLAUSE = re.compile(r"[,;:.!?](?=\s|$)")
WORD = re.compile(rf"{MONTH}|{NUMBER}|[A-Za-z][A-Za-z0-9]*")
MORE = frozenset({"higher", "highest", "more", "most", "larger", "largest", "greater", "greatest", "deeper", "deepest"})  # fmt: skip
LESS = frozenset({"lower", "lowest", "less", "least", "smaller", "smallest"})
ACRONYMS = frozenset({"CAGR", "USD"})

Result = Mapping[str, object] | str
Said = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Holding:
    """Values that a result gives to a symbol, or to several together, and the months that it is about."""

    symbols: frozenset[str]
    values: frozenset[str]
    months: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Order:
    """What a comparison found."""

    highest: str
    lowest: str


def bound(report: Mapping[str, Any], results: Sequence[Result]) -> bool:
    """Whether each value of the report belongs to the symbol it is said of, and each comparison is true.

    Args:
        report: A `Report` as a mapping, with `figures` and `answer`.
        results: What each tool returned, or the text of its error.
    """
    holdings = [holding for result in results for holding in held(result)]
    orders = [order for result in results for order in ordered(result)]
    names = frozenset(symbol for holding in holdings for symbol in holding.symbols)
    lines = [read(f"{figure['name']} {figure['value']}", names) for figure in report["figures"]]
    clauses = [read(clause, names) for clause in CLAUSE.split(str(report["answer"]))]
    return (
        all(belongs(line, holdings) for line in lines)
        and all(belongs(said, holdings) for said in inherited(clauses))
        and all(true(clause, orders) for clause in clauses)
    )


def held(result: Result) -> list[Holding]:
    """The values of a result by symbol; the text of an error gives its numbers to the symbols it names."""
    if isinstance(result, str):
        symbols = frozenset(re.findall(r"\b[A-Z][A-Z0-9]+\b", result))
        return [Holding(symbols, frozenset(numbers(result)))]
    if "highest" in result:
        highest, lowest = (str(result[side]).upper() for side in ("highest", "lowest"))
        shares = (
            ({highest}, "highest_value"),
            ({lowest}, "lowest_value"),
            ({highest, lowest}, "gap"),
        )
        return [
            Holding(frozenset(symbols), frozenset(numbers(str(result[key]))))
            for symbols, key in shares
            if key in result
        ]
    of = [str(value).upper() for key in ("symbol", "first", "second") if isinstance(value := result.get(key), str)]  # fmt: skip
    months = frozenset(str(result[side]) for side in ("start", "end") if side in result)
    found = numbers(" ".join(str(v) for v in result.values() if not isinstance(v, str)))
    return [Holding(frozenset(of), frozenset(found) | months, months)]


def ordered(result: Result) -> list[Order]:
    """What a comparison found; none when there was a tie."""
    if isinstance(result, str) or "highest" not in result or result["highest"] == result["lowest"]:
        return []
    return [Order(str(result["highest"]).upper(), str(result["lowest"]).upper())]


def read(text: str, names: frozenset[str]) -> Said:
    """The symbols, months, values and comparatives of a text, in its order."""
    said: Said = []
    for word in WORD.findall(text):
        if re.fullmatch(MONTH, word):
            said.append(("month", word))
        elif re.fullmatch(NUMBER, word):
            said.append(("value", str(float(word))))
        elif word.upper() in names or is_ticker(word):
            said.append(("symbol", word.upper()))
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
    """The clauses, where one that names no symbol is about the only symbol of the last clause that does."""
    about: list[str] = []
    found = []
    for clause in clauses:
        named = list(dict.fromkeys(picked(clause, "symbol")))
        if not named and len(about) == 1:
            clause = [("symbol", about[0]), *clause]
        about = named or about
        found.append(clause)
    return found


def belongs(said: Said, holdings: Sequence[Holding]) -> bool:
    """Whether each value of a clause belongs to its symbol, in one of the ways to read which that is."""
    symbols = frozenset(picked(said, "symbol"))
    months = frozenset(picked(said, "month"))
    about = [h for h in holdings if not symbols or h.symbols & symbols]
    if not all(any(month in h.values for h in about) for month in months):
        return False

    def holds(holding: Holding, symbol: str, value: str) -> bool:
        return (
            (not symbol or symbol in holding.symbols)
            and (len(symbols) < 2 or holding.symbols <= symbols)  # a pair's value is of that pair
            and (not months or not holding.months or not months.isdisjoint(holding.months))
            and value in holding.values
        )

    return any(
        all(any(holds(h, symbol, value) for h in about) for symbol, value in reading)
        for reading in readings(said)
    )


def readings(said: Said) -> list[list[tuple[str, str]]]:
    """Which symbol each value is said of: the one before it, the one after it, or first of first and so on."""
    before, after = _nearest(said), _nearest(said[::-1])[::-1]
    symbols, values = picked(said, "symbol"), picked(said, "value")
    in_turn = [list(zip(symbols, values, strict=True))] if len(symbols) == len(values) else []
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
