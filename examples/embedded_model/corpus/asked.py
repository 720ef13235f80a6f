"""A question about a table of prices with the calls that answer it, and how it names symbols."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from corpus import names
from corpus.finance_tables import FIRST_WORDS, closes, company, random_symbol
from corpus.periods import Period

NAMED_SHARE = 0.48
SMALL_SHARE = 0.28
OTHER_PRICED_SHARE = 0.14
OTHER_PRICED = (
    "the {} index", "the {} {n}", "the {} composite", "{} futures", "the {} fund", "the market", "the index", "the average stock", "gold", "crude oil", "the dollar",
    "treasury bonds", "a savings account", "an index fund", "the benchmark", "copper", "the whole market", "its rivals", "its sector",
)  # fmt: skip

Call = tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the calls that answer it."""

    question: str
    calls: tuple[Call, ...]
    keep: tuple[str, ...] = ()


def call(name: str, symbol: str, period: Period) -> Call:
    """A call of a tool about one symbol."""
    return name, {"symbol": symbol, **period.arguments}


def compared(metric: str, symbols: Sequence[str], period: Period) -> Call:
    """The call that ranks symbols by a metric; without symbols, those of the whole table."""
    named = {"symbols": list(symbols)} if symbols else {}
    return "compare", {"metric": metric, **named, **period.arguments}


def correlated(first: str, second: str, period: Period) -> Call:
    """The call that relates two symbols."""
    return "correlation", {"first": first, "second": second, **period.arguments}


def no_answer(reason: str) -> Call:
    """The call that says why there is no answer."""
    return "unanswerable", {"reason": reason}


def mention(rng: random.Random, table: closes.Table, identifier: str) -> str:
    """How a question writes an identifier: a symbol as it is or in small letters, a name as people say it."""
    if identifier not in table.closes:
        return _typed(rng, _shortened(rng, table, identifier))
    return identifier.lower() if rng.random() < SMALL_SHARE else identifier


def stranger(rng: random.Random, table: closes.Table) -> str:
    """A symbol, a company or something else with a price that the table lacks, as a question names it."""
    if rng.random() < OTHER_PRICED_SHARE:
        other = rng.choice(OTHER_PRICED).replace("{n}", rng.choice(("30", "100", "225", "500")))
        return _typed(rng, other.replace("{}", names.brand(rng)))
    name = company(rng) if rng.random() < 0.55 else random_symbol(rng)
    known = {word.upper() for word in (*table.symbols, *table.names.values())}
    first = {word.split()[0].upper() for word in table.names.values()}
    if name.upper() in known or name.split()[0].upper() in known | first:
        return stranger(rng, table)
    return _typed(rng, name)


def some(rng: random.Random, table: closes.Table, count: int) -> list[str]:
    """So many companies of the table, or all of them, each by its symbol or by its name."""
    return [
        table.names[symbol]
        if table.names.get(symbol) in table.identifiers and rng.random() < NAMED_SHARE
        else symbol
        for symbol in rng.sample(table.symbols, min(count, len(table.symbols)))
    ]


def joined(rng: random.Random, words: Sequence[str], links: Sequence[str]) -> str:
    """Words as a list with one of the links before the last."""
    link = rng.choice(links)
    if len(words) == 1:
        return words[0]
    if len(words) == 2:
        return f"{words[0]} {link} {words[1]}"
    return ", ".join(words[:-1]) + rng.choice((" ", ", ")) + f"{rng.choice(links[:2])} {words[-1]}"


def years(rng: random.Random, table: closes.Table) -> tuple[int, int]:
    """The years of the table; now and then others, of which it knows nothing."""
    first, last = int(table.first[:4]), int(table.last[:4])
    away = rng.choice((-40, -20, -12, 12, 20, 40)) if rng.random() < 0.05 else 0
    return first + away, last + away


def _shortened(rng: random.Random, table: closes.Table, name: str) -> str:
    """A company's name as people say it: often its first word alone, where no other begins so."""
    words = name.split()
    alike = sum(one.split()[0] == words[0] for one in table.names.values())
    if words[0] not in FIRST_WORDS and alike == 1 and len(words) > 1 and rng.random() < 0.35:
        return words[0]
    return name


def _typed(rng: random.Random, name: str) -> str:
    """A name as it is typed: in small letters, or with a slip of the finger, in a part of the cases."""
    pick = rng.random()
    if pick < 0.38:
        return name.lower()
    if pick < 0.41:
        return name.upper()
    return names.slip(rng, name) if pick < 0.43 and len(name) > 5 else name
