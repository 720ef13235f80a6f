"""Random tables of closing prices: tickers, names of companies, random walks."""

import random
import string
from collections.abc import Mapping
from datetime import date

import closes as closes

from corpus import names

HELD_OUT_SYMBOLS = frozenset({"MSFT", "AMZN", "IBM", "GOOG", "AAPL"})
KINDS_OF_COMPANY = (
    "Industries", "Group", "Motors", "Energy", "Bank", "Foods", "Systems", "Labs", "Air", "Steel", "Media", "Pharma", "Holdings", "Inc", "Corp", "Software", "Networks", "Oil", "Mining", "Textiles", "Works", "Brothers", "International", "Technologies", "Insurance", "Electric", "Partners", "& Co", "Telecom", "Logistics", "Robotics", "Instruments", "Machines",
)  # fmt: skip
UNUSUAL_SHARE = 0.12
FIRST_WORDS = ("General", "United", "First", "National", "North", "Royal", "New", "American", "Royal", "Global", "Great", "Old", "International", "Standard")  # fmt: skip
NEVER_ALONE = (*FIRST_WORDS, "Bank", "Banco", "The", "House")


def random_symbol(rng: random.Random) -> str:
    """A ticker that is none of the held-out ones, now and then with digits, a dot or a dash."""
    lengths = rng.choices((1, 2, 3, 4, 5), (3, 8, 30, 45, 14))[0]
    letters = "".join(rng.choices(string.ascii_uppercase, k=lengths))
    pick = rng.random()
    if pick < 0.04:
        letters += rng.choice((".A", ".B", "-USD", "2", "3", "X1", "50", "-A", "-B", ".X"))
    elif pick < 0.08:
        letters += rng.choice((".", "-")) + "".join(rng.choices(string.ascii_uppercase, k=rng.randint(1, 3)))  # fmt: skip
    elif pick < 0.11:
        digits = "".join(rng.choices(string.digits, k=rng.randint(3, 6)))
        letters = digits + rng.choice(("", ".", ".")) + "".join(rng.choices(string.ascii_uppercase, k=2))  # fmt: skip
    elif pick < 0.14:
        letters = "".join(rng.choices(string.ascii_uppercase + string.digits, k=rng.randint(3, 5)))
    if letters[-1] in ".-" or letters.isdigit():
        letters += rng.choice(string.ascii_uppercase)
    return random_symbol(rng) if letters in HELD_OUT_SYMBOLS else letters


UNUSUAL = (
    "Bank of {}", "{} and {}", "{} and Company", "{}-{}", "{}'s", "{} Brothers", "{}.com", "{} of {}", "The {} Company", "House of {}", "3{}", "{} 24", "{}!", "{}land", "e{}", "{} One", "Banco {}", "{}werke", "{}soft", "{} Computer", "{} Machines",
    "International {} {}", "General {}", "{} National Bank", "{} Air Lines", "{} & Sons", "{} Entertainment", "{} Stores", "{} Dynamics", "{} Health", "{} Rail", "{} Capital", "{} Chemical", "{} Semiconductor", "{} Studios", "{} Petroleum", "{} Beverages", "{} Financial", "{} Materials",
)  # fmt: skip


def company(rng: random.Random) -> str:
    """The name of a company that does not exist."""
    name = names.brand(rng)
    if rng.random() < UNUSUAL_SHARE:
        made = rng.choice(UNUSUAL)
        while "{}" in made:
            made = made.replace("{}", names.brand(rng), 1)
        return made
    pick = rng.random()
    if pick < 0.60:
        return name
    if pick < 0.85:
        return f"{name} {rng.choice(KINDS_OF_COMPANY)}"
    if pick < 0.93:
        return f"{rng.choice(FIRST_WORDS)} {name}"
    if pick < 0.96:
        return f"{rng.choice(FIRST_WORDS)} {name} {rng.choice(KINDS_OF_COMPANY)}"
    return f"{name} & {names.brand(rng)}"


def ticker(rng: random.Random, name: str) -> str:
    """A ticker that reminds of a name, as many do."""
    words = [word for word in name.split() if word[0].isalpha()] or [names.word(rng)]
    if len(words) > 1 and rng.random() < 0.3:
        made = "".join(word[0] for word in words) + rng.choice(("", "", words[-1][-1]))
    else:
        kept = [c for c in words[0][1:] if c.isalpha() and (c not in "aeiou" or rng.random() < 0.4)]
        made = words[0][0] + "".join(kept[: rng.randint(1, 4)])
    made = made.upper()
    return random_symbol(rng) if made in HELD_OUT_SYMBOLS else made


def random_table(rng: random.Random) -> closes.Table:
    """Closes of a few random symbols; some begin later than the rest, some tables name them."""
    prices: dict[str, tuple[closes.Close, ...]] = {}
    called: dict[str, str] = {}
    days = random_days(rng)
    count = rng.choices((2, 3, 4, 5, 6, 7, 10, 14, 20), (7, 14, 20, 36, 9, 6, 3, 2, 3))[0]
    named = rng.random() < (0.66 if count < 8 else 0.2)
    alike = rng.random() < 0.5
    for _ in range(count):
        price = 10 ** rng.uniform(0.2, 3.0)
        drift, spread = rng.gauss(0.006, 0.012), rng.uniform(0.02, 0.16)
        begin = rng.randrange(len(days) // 2) if rng.random() < 0.15 else 0
        path = []
        for day in days[begin:]:
            path.append(closes.Close(day, round(price, 2)))
            price = min(max(price * (1 + rng.gauss(drift, spread)), 0.5), 9000.0)
        name = _alike(rng, called) if alike and called else company(rng)
        symbol = ticker(rng, name) if named and rng.random() < 0.6 else random_symbol(rng)
        prices[symbol] = tuple(path)
        if named and rng.random() < 0.97:
            called[symbol] = name
    return closes.Table(prices, {symbol: called[symbol] for symbol in prices if symbol in called})


def crowded_table(rng: random.Random) -> closes.Table:
    """A table of a month whose names and symbols are hard to tell apart: they share their first letters."""
    letters = rng.sample(string.ascii_uppercase, rng.choice((1, 2, 2, 3, 5, 26)))
    day = date(rng.randint(1965, 2020), rng.randint(1, 12), 1)
    prices: dict[str, tuple[closes.Close, ...]] = {}
    called: dict[str, str] = {}
    kind, named = rng.choice((random_symbol, _numbered)), rng.random() < 0.75
    for _ in range(rng.choice((3, 4, 5, 5, 6, 7, 8, 10, 14, 20))):
        name = next((n for n in (company(rng) for _ in range(60)) if n[0] in letters), None)
        if name is None:
            continue
        pick = rng.random()
        symbol = ticker(rng, name) if pick < 0.6 else kind(rng)
        if pick > 0.8:
            symbol = rng.choice(letters) + symbol[1:]
        if symbol in HELD_OUT_SYMBOLS:
            continue
        prices[symbol] = (closes.Close(day, 1.0),)
        if named:
            called[symbol] = name
    return closes.Table(prices, called) if len(prices) > 1 else crowded_table(rng)


def _numbered(rng: random.Random) -> str:
    """A symbol of some digits and an exchange."""
    digits = "".join(rng.choices(string.digits, k=rng.randint(3, 5)))
    return digits + rng.choice((".", "", "-")) + "".join(rng.choices(string.ascii_uppercase, k=2))


def _alike(rng: random.Random, called: Mapping[str, str]) -> str:
    """A company whose name begins with the letter of another one, where one is found soon."""
    drawn = [company(rng) for _ in range(12)]
    letters = {name[0] for name in called.values()}
    return next((name for name in drawn if name[0] in letters), drawn[0])


def random_days(rng: random.Random) -> list[date]:
    """The days of the closes: one a month, in a few tables four."""
    first = rng.randint(1965, 2020)
    years = rng.randint(3, 12) if rng.random() < 0.85 else rng.randint(12, 25)
    count = 12 * years - rng.randrange(12)
    if rng.random() < 0.06:
        count = min(count, 72)
        return [date(first + i // 12, i % 12 + 1, day) for i in range(count) for day in (6, 13, 20, 27)]  # fmt: skip
    return [date(first + i // 12, i % 12 + 1, 1) for i in range(count)]
