"""A question about a table of prices with the calls that answer it, and how it names symbols."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from corpus import names
from corpus.finance_tables import FIRST_WORDS, closes, company, random_symbol
from corpus.periods import Period

NAMED_SHARE = 0.48
SMALL_SHARE = 0.36
OTHER_PRICED_SHARE = 0.2
AWAY_SHARE = 0.1
OTHER_PRICED = (
    "the {} index", "the {} {n}", "the {} composite", "{} futures", "the {} fund", "the market", "the index", "the average stock", "gold", "crude oil", "the dollar",
    "treasury bonds", "a savings account", "an index fund", "the benchmark", "copper", "the whole market", "its rivals", "its sector",
    "the S&P 500", "the S&P", "S&P {n}", "the Dow", "the Dow Jones", "the Nasdaq", "the Nasdaq {n}", "the Russell 2000", "the FTSE {n}", "the DAX", "the CAC 40", "the Nikkei", "the Nikkei {n}", "the Hang Seng", "the world index", "the {} {n} index", "the {} average", "an ETF on {}",
    "silver", "platinum", "wheat", "coffee", "natural gas", "brent crude", "a barrel of oil", "an ounce of gold", "bitcoin", "ether", "the euro", "the yen", "the pound", "the {} currency", "government bonds", "the ten-year bond", "{} bonds", "the {} bond", "corporate bonds", "a money market fund", "a term deposit", "cash", "real estate", "house prices", "farmland", "my house",
    "the {} fund of funds", "a tracker", "the technology sector", "bank stocks", "small caps", "emerging markets", "the typical share", "its biggest competitor", "private equity", "the {} warrant", "{} options", "{} preference shares", "the {} pension fund",
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
    away = 0
    if rng.random() < AWAY_SHARE:
        away = rng.choice((-1, 1)) * (last - first + rng.choice((0, 1, 2, 3, 5, 8, 12, 20, 35)))
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
    if pick < 0.45:
        return name.lower()
    if pick < 0.48:
        return name.upper()
    return names.slip(rng, name) if pick < 0.5 and len(name) > 5 else name
