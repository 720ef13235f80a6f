"""Questions in pairs of a kind: one that closing prices answer, and one alike that they do not.

What decides is a word or two: the name of the figure, in what it is measured, what it is set against. Both are drawn
from the same sentences, so that neither a sentence nor a period gives the answer away.
"""

import random
from collections.abc import Callable

from corpus.finance_figures import lacked
from corpus.finance_words import NOUNS
from corpus.wording import expand

Kind = Callable[[random.Random, bool], tuple[str, str]]
"""A way to ask, about what a tool computes or what none does: the pattern, and that tool or metric."""

NAMED_FIGURES = (
    "(what was|what is|what's|give me|tell me|show me|find|compute|i need|look up|fetch|quote|state) the {t} (of|for) {s} {p}", "what was {s}'s {t} {p}", "{s} {t} {p}", "{t} of {s} {p}", "{t} {s} {p}", "{s} - {t} - {p}", "{s}, {t}, {y}", "{t}: {s}, {y}",
    "(list|report|show|state) {s}'s {t} {p}", "do you know the {t} of {s} {p}", "is there (data on|anything about) the {t} of {s} {p}", "{s}: {t} {p}", "(for|about) {s} i need the {t} {p}", "and the {t} of {s} {p}", "{p}, what was the {t} of {s}",
    "what {t} did {s} (have|show|post|see) {p}", "how (high|large|big) was the {t} of {s} {p}", "my (boss|teacher|client|aunt) asks for the {t} of {s} {p}", "how about {s}'s {t} {p}", "i am looking for {s}'s {t} {p}", "(could|can) you (dig out|find|check) {s}'s {t} {p}",
    "what does the table say about the {t} of {s} {p}", "{t} of the {s} share {p}", "{s} {y} {t}", "{y} {t} of {s}", "in terms of {t}, where was {s} {p}",
)  # fmt: skip
SET_SIDE_BY_SIDE = (
    "which had the (higher|lower|larger|smaller) {t} {p}, {l}", "compare the {t} of {n} {p}", "between {n}, which had the (higher|lower) {t} {p}", "{a} or {b}: whose {t} was (higher|lower|larger) {p}", "{n}: {t} {p}", "by {t}, which comes first {p}, {l}", "rank {n} by {t} {p}",
    "{t} of {a} against {t} of {b} {p}", "which of {l} had the (highest|lowest) {t} {y}", "{a} vs {b} on {t} {p}", "(order|sort) {n} by {t} {p}", "whose {t} was (higher|lower) {p}, {l}",
)  # fmt: skip
RANKED = ("rank all (stocks|companies|shares) by {t} {p}", "which (stock|company|symbol|share) had the (highest|lowest|largest|smallest) {t} {p}", "who (had|has) the (highest|lowest) {t} {p}", "the whole table by {t} {p}", "(top|bottom) of the list by {t} {p}", "sort everything by {t} {y}")  # fmt: skip
MEASURED = {
    "total_return": (
        "(what|how much) did {s} (return|gain|make|earn) {p}", "by how much did {s} (rise|fall|change|grow) {p}", "what was the (gain|return|profit|loss|performance) (of|on|from) {s} {p}", "how did {s} (do|perform|fare) {p}", "{s} {p}, gain or loss", "return of {s} {p}", "was {s} up or down {p}",
        "how many percent did {s} (rise|lose|gain) {p}", "{s} return {y}", "did {s} (gain|rise|lose money) {p}", "what would i have made on {s} {p}",
    ),
    "annual_return": ("how much did {s} (return|gain|grow) a year {p}", "yearly return of {s} {p}", "what was the (annual|yearly|annualised) (gain|return|growth) of {s} {p}", "{s} per year {p}"),
    "volatility": ("how volatile was {s} {p}", "volatility of {s} {p}", "how (risky|bumpy|steady) was {s} {p}"),
    "drawdown": ("what was the (worst|deepest) (fall|drop) of {s} {p}", "max drawdown of {s} {p}", "how far did {s} fall from its high {p}"),
    "prices": ("what was the price of {s} {m}", "what did {s} (cost|close at|trade at) {m}", "{s} close {m}", "how much was a share of {s} worth {m}", "what was {s} worth {m}", "highest and lowest close of {s} {p}"),
}  # fmt: skip
OTHERWISE = (
    "(in|measured in|counted in|expressed in|converted to|paid in) (euros|pounds|yen|swiss francs|rupees|yuan|kroner|pesos|roubles|won|bitcoin|gold|ounces of gold|barrels of oil|constant money|today's money|my own currency|hours of work)", "(after|net of|less|minus) (tax|taxes|fees|inflation|commissions|trading costs|costs|interest|my broker's cut|the management fee|stamp duty)",
    "(adjusted|corrected|allowing) for (inflation|exchange rates|consumer prices|risk|the cost of living|dividends)", "with (the |)dividends (included|reinvested|added|counted in)", "(including|plus|counting) (all |the |)(dividends|payouts|distributions|coupons|rights issues)", "in real terms", "in terms of (purchasing power|earnings|cash flow|sales|book value)",
    "(relative to|against|compared with|next to|over and above|in excess of) (the index|its sector|its peers|the market|the benchmark|the risk-free rate|cash|inflation|bonds|gold|the average investor|the S&P 500|the Dow|the Nasdaq|the FTSE|a savings account)", "per (employee|customer|dollar of sales|unit of profit|dollar of debt|board member)",
    "and (why|what caused it|who was behind it|what was the reason|what news was there|what did analysts say)", "as a multiple of (its |)(earnings|sales|book value|cash flow)", "on a risk-adjusted basis", "for a (taxpayer|foreign investor|pensioner after tax)", "if (you add|one counts|we include) (the |)(dividends|payouts)", "hour by hour", "during the trading day", "on leverage", "with borrowed money at (five|six) percent",
)  # fmt: skip
AS_IT_IS = (
    "in percent", "as a percentage", "as a number", "going by the closes", "by the closing prices", "on the closing prices alone", "price alone", "prices only", "just the price", "without dividends", "ignoring dividends", "leaving dividends aside", "leaving (fees|taxes|inflation|costs) (aside|out)", "not counting (fees|dividends|taxes|inflation)",
    "before (tax|fees|costs)", "in nominal terms", "as listed", "in this table", "in the data", "according to the table", "by your data", "to two digits", "roughly", "all told", "on paper", "no dividends, just prices", "never mind why", "whatever the reason", "forget the index", "no matter what the market did", "in plain figures",
)  # fmt: skip


def named_figure(rng: random.Random, known: bool) -> tuple[str, str]:
    """A sentence about a figure of a symbol, and the tool that computes it, if any does."""
    tool = rng.choice([*NOUNS])
    figure = expand(NOUNS[tool], rng) if known else lacked(rng)
    return rng.choice(NAMED_FIGURES).replace("{t}", figure), tool


def compared_figure(rng: random.Random, known: bool) -> tuple[str, str]:
    """A sentence that compares a figure of some symbols, and its metric."""
    metric = rng.choice(("total_return", "annual_return", "volatility", "drawdown"))
    figure = expand(NOUNS[metric], rng) if known else lacked(rng)
    return rng.choice(SET_SIDE_BY_SIDE).replace("{t}", figure), metric


def ranked_figure(rng: random.Random, known: bool) -> tuple[str, str]:
    """A sentence that ranks the whole table by a figure, and its metric."""
    metric = rng.choice(("total_return", "annual_return", "volatility", "drawdown"))
    figure = expand(NOUNS[metric], rng) if known else lacked(rng)
    return rng.choice(RANKED).replace("{t}", figure), metric


def measured(rng: random.Random, known: bool) -> tuple[str, str]:
    """A question about a figure of closes, measured as they are, or in a way that they do not tell."""
    tool = rng.choices([*MEASURED], (50, 12, 8, 8, 22))[0]
    said = rng.choice(AS_IT_IS if known else OTHERWISE)
    sentence = rng.choice(MEASURED[tool])
    if rng.random() < 0.22 and not said.startswith("and "):
        return f"{said}, {sentence}", tool
    return f"{sentence}{rng.choice((' ', ' ', ' ', ', '))}{said}", tool


KINDS: tuple[Kind, ...] = (named_figure, compared_figure, ranked_figure, measured)
