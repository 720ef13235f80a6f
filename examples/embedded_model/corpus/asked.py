"""A question about a table of prices with the calls that answer it, and how it names symbols."""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from corpus import names
from corpus.finance_tables import (
    HELD_OUT_SYMBOLS,
    NEVER_ALONE,
    closes,
    company,
    random_symbol,
    ticker,
)
from corpus.periods import Period
from corpus.wording import expand

NAMED_SHARE = 0.48
SMALL_SHARE = 0.42
OTHER_PRICED_SHARE = 0.24
DESCRIBED_SHARE = 0.06
NEAR_SHARE = 0.2
AWAY_SHARE = 0.15
MISTAKABLE = 0.72
OTHER_PRICED = (
    "the {} index", "the {} {n}", "the {} composite", "{} futures", "the {} fund", "the market", "the index", "the average stock", "gold", "crude oil", "the dollar",
    "treasury bonds", "a savings account", "an index fund", "the benchmark", "copper", "the whole market", "its rivals", "its sector",
    "the S&P 500", "the S&P", "S&P {n}", "the Dow", "the Dow Jones", "the Nasdaq", "the Nasdaq {n}", "the Russell 2000", "the FTSE {n}", "the DAX", "the CAC 40", "the Nikkei", "the Nikkei {n}", "the Hang Seng", "the world index", "the {} {n} index", "the {} average", "an ETF on {}",
    "silver", "platinum", "wheat", "coffee", "natural gas", "brent crude", "a barrel of oil", "an ounce of gold", "bitcoin", "ether", "the euro", "the yen", "the pound", "the {} currency", "government bonds", "the ten-year bond", "{} bonds", "the {} bond", "corporate bonds", "a money market fund", "a term deposit", "cash", "real estate", "house prices", "farmland", "my house",
    "the {} fund of funds", "a tracker", "the technology sector", "bank stocks", "small caps", "emerging markets", "the typical share", "its biggest competitor", "private equity", "the {} warrant", "{} options", "{} preference shares", "the {} pension fund",
    "the {} of {}", "EUR/USD", "USD/JPY", "the dollar against the yen", "the franc", "the peso", "the lira", "the price of bread", "petrol", "sugar", "cotton", "pork bellies", "lithium", "uranium", "carbon permits", "dogecoin", "the {} coin", "{} tokens", "an NFT", "a flat in town", "a bottle of wine", "a barrel of whisky", "stamps", "a painting", "a used car",
    "{person}'s fund", "{person}'s portfolio", "{person}", "my portfolio", "our club's portfolio", "your favourite stock", "my brother's company", "the firm that {person} founded", "the maker of {} phones", "the company behind {}", "{}'s parent company", "a subsidiary of {}", "the {} brand", "the supplier of {} chips", "the bank next door", "the biggest bank",
    "airlines", "car makers", "the drug companies", "the oil majors", "retailers", "utilities", "the insurance sector", "chip stocks", "growth stocks", "value stocks", "dividend payers", "blue chips", "penny stocks", "start-ups", "family firms", "Japanese shares", "European stocks", "the emerging world", "the other tech companies", "the rest of the market", "everything else",
    "a random stock", "the median company", "an equal-weighted basket of the market", "oil", "gold", "silver", "bitcoin", "the dow", "btc", "eth", "eurusd", "nasdaq", "ftse", "dax", "crude", "cash", "bonds", "the euro", "tin", "corn", "{}", "a 60/40 portfolio", "the typical fund manager", "a hedge fund", "the volatility index", "the VIX", "the MSCI World", "the Euro Stoxx {n}", "the TSX", "the Bovespa", "the Sensex", "the KOSPI", "consumer prices", "the minimum wage", "rents", "the average salary", "GDP", "the federal funds rate", "mortgage rates",
)  # fmt: skip

DESCRIBED = (
    "(the|that|this|some) {thing} (company|maker|firm|business|giant|chain|people|seller|brand)", "(the|that) (company|firm|business|maker) (that|which) (makes|sells|invented|rents out) {thing}", "{person}'s (company|{thing} firm|{thing} maker|business|start-up)", "(a|some) big {thing} (maker|company)", "the (largest|oldest|best known|second) {thing} (maker|firm) (in the world|of the country|)", "the {thing} (shares|stocks|industry)",
)  # fmt: skip
THINGS = (
    "car", "beer", "soap", "shoe", "toy", "tyre", "pen", "glue", "coffee", "burger", "film", "camera", "watch", "bicycle", "train", "aircraft", "rocket", "tractor", "ship", "chip", "printer", "telephone", "television", "radio", "game", "book", "newspaper", "music", "video rental", "hotel", "cruise", "airline", "parcel", "taxi", "furniture", "carpet", "glass", "paper", "cement", "steel", "copper", "gold", "diamond",
    "oil", "gas", "solar", "battery", "water", "seed", "fertiliser", "milk", "chocolate", "cereal", "sweets", "tobacco", "whisky", "wine", "drug", "vaccine", "hearing aid", "contact lens", "insurance", "credit card", "payment", "auction", "search", "chat", "dating", "networking", "cloud", "database", "router", "disk", "memory", "graphics", "robot", "lift", "lock", "paint", "jeans", "perfume", "razor", "nappy", "cola",
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
    pick = rng.random()
    if pick < OTHER_PRICED_SHARE:
        described = rng.random() < DESCRIBED_SHARE / OTHER_PRICED_SHARE
        return _typed(rng, _filled(rng, rng.choice(DESCRIBED if described else OTHER_PRICED)))
    near = _near(rng, table) if pick < OTHER_PRICED_SHARE + NEAR_SHARE else ""
    name = near or company(rng)
    if not near and rng.random() < 0.48:  # a symbol, in most cases one that reminds of a name
        name = ticker(rng, name) if rng.random() < 0.6 else random_symbol(rng)
    known = {word.upper() for word in (*table.symbols, *table.names.values())}
    first = {word.split()[0].upper() for word in table.names.values()}
    if name.upper() in known or (not near and name.split()[0].upper() in known | first):
        return stranger(rng, table)
    if name.isupper():
        return name.lower() if rng.random() < SMALL_SHARE else name
    return _typed(rng, name)


def _filled(rng: random.Random, other: str) -> str:
    """A name of something priced with its holes filled."""
    while "{}" in other:
        other = other.replace("{}", names.brand(rng), 1)
    other = expand(other, rng).replace("{thing}", rng.choice(THINGS))
    number = rng.choice(("30", "50", "100", "225", "500"))
    return other.replace("{n}", number).replace("{person}", names.person(rng))


def _near(rng: random.Random, table: closes.Table) -> str:
    """A symbol or a company that is not in the table, but looks like one that is; empty where none is found soon."""
    for _ in range(8):
        if table.names and rng.random() < 0.6:
            name = rng.choice([*table.names.values()])
            first, *rest = name.split()
            other = first[: rng.randint(1, 4)] + names.word(rng).lower()
            if rest and rng.random() < 0.35:
                other = names.brand(rng)  # of the same kind: another bank, another airline
            made = " ".join((other, *rest)) if rest and rng.random() < 0.7 else other
            alike = max(_likeness(made.split()[0], n.split()[0]) for n in table.names.values())
            if alike < MISTAKABLE:
                return made
            continue
        symbol = rng.choice(table.symbols)
        at, letter = rng.randrange(len(symbol)), rng.choice(string.ascii_uppercase)
        made = rng.choice((symbol[:at] + letter + symbol[at + 1 :], symbol + letter, symbol[:at] + letter + symbol[at:], symbol[:-1]))  # fmt: skip
        if len(made) > 1 and made not in table.symbols and made not in HELD_OUT_SYMBOLS:
            return made
    return ""


def _likeness(one: str, other: str) -> float:
    """How alike two words are, from 0 to 1; a slip of the finger leaves most of a word."""
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


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
    """The years of the table; now and then others, of which it knows nothing, or only some."""
    first, last = int(table.first[:4]), int(table.last[:4])
    away = 0
    if rng.random() < AWAY_SHARE:
        span = last - first
        beyond = span + rng.choice((0, 1, 2, 3, 5, 8, 12, 20, 35))
        away = rng.choice((-1, 1)) * (beyond if rng.random() < 0.6 else rng.randint(1, span + 1))
    return first + away, last + away


def _shortened(rng: random.Random, table: closes.Table, name: str) -> str:
    """A company's name as people say it: often its first word alone, where no other begins so."""
    words = name.split()
    alike = sum(one.split()[0] == words[0] for one in table.names.values())
    if words[0] not in NEVER_ALONE and alike == 1 and len(words) > 1 and rng.random() < 0.35:
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
