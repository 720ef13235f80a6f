"""Symbols looked up in a table by how people mention them, many to a row.

What a question names has to be found among the symbols and the names of companies before anything else can be right.
A whole transcript teaches that once or twice; a row of these teaches it a dozen times, on as many tokens.
"""

import random

from corpus.asked import joined, mention, some, stranger
from corpus.example import compact
from corpus.finance_tables import closes, crowded_table, random_table
from corpus.wording import expand

LOOKUPS = 16
UNKNOWN_SHARE = 0.4
CROWDED_SHARE = 0.65
LINKS = ("or", "and", "and", "vs", "&")
AMID = (
    "{}", "{}", "about {}", "how did {} do", "what of {}", "{} (in {y}|)", "(price|return|risk) of {}", "was {} up", "{}'s (gain|close)",
    "{} (gain|high|volatility)", "(hi, |so |)and {}", "did {} rise", "(the |){} (stock|shares)", "show {}", "compare {}", "which one, {}",
    "{} return {y}", "{} {y}", "{}, {y}, please", "{}'s best month in {y}", "what did {} (return|gain|lose) (in|between|since) {y}", "{} (price|close) (dec|in march|end of) {y}", "{} volatility for {y}", "{} performance {y}", "how much did {} (gain|fall) in {y}", "(max drawdown|total return|annual return) {}", "{}: rank them by return for {y}", "{} total return {y} to {y}",
)  # fmt: skip

Lookup = tuple[str, str]
"""A mention amid some words, and the arguments that it becomes."""


def draw(rng: random.Random) -> tuple[str, list[Lookup]]:
    """What a prompt shows of a random table, and lookups in it."""
    table = crowded_table(rng) if rng.random() < CROWDED_SHARE else random_table(rng)
    return f"Symbols: {table.shown}", [_lookup(rng, table) for _ in range(LOOKUPS)]


def _lookup(rng: random.Random, table: closes.Table) -> Lookup:
    words = expand(rng.choice(AMID), rng).replace("{y}", str(rng.randint(1970, 2020)))
    if rng.random() < UNKNOWN_SHARE:
        said = [stranger(rng, table)]
        said += [mention(rng, table, s) for s in some(rng, table, rng.choice((0, 0, 1, 2)))]
        rng.shuffle(said)
        return words.replace("{}", joined(rng, said, LINKS)), compact({"reason": "symbol"})
    symbols = some(rng, table, rng.choice((1, 1, 1, 2, 2, 3, 4)))
    text = words.replace("{}", joined(rng, [mention(rng, table, s) for s in symbols], LINKS))
    if len(symbols) == 1:
        return text, compact({"symbol": symbols[0]})
    return text, compact({"symbols": symbols})
