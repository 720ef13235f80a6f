"""Questions from the phrase patterns of `wordings/`, each with the calls that answer it."""

import random
from collections.abc import Callable, Sequence
from itertools import combinations

from corpus import bare_periods, finance_borders, finance_lookalikes, patterns
from corpus.asked import (
    Asked,
    call,
    compared,
    correlated,
    joined,
    mention,
    no_answer,
    some,
    stranger,
    years,
)
from corpus.finance_figures import lacked
from corpus.finance_tables import closes
from corpus.finance_words import NAMED, NOUNS
from corpus.periods import Period
from corpus.relative_periods import NUMBERS
from corpus.wording import expand

OR = ("or", "or", "or", "or", "/", "vs")
AND = ("and", "and", "and", "and", "&", "plus")
PERCENTAGES = (5, 8, 10, 12, 15, 18, 20, 22, 25, 30, 33, 35, 40, 45, 50, 60, 70, 75, 80, 90, 100, 120, 150, 200, 300)  # fmt: skip
SUMS = ("100", "500", "1,000", "1000", "2,500", "5,000", "7500", "10,000", "10000", "25,000", "40000", "100,000")  # fmt: skip

Draw = Callable[[random.Random, int, int], Period]
"""A way to draw a period between two years."""

Kind = Callable[[random.Random, closes.Table, Draw], Asked]
"""A way to ask."""

SINGLE = {
    "total_return": "total_return", "annual_return": "annual_return", "volatility": "volatility",
    "drawdown": "drawdown", "price_of_month": "prices", "price_extremes": "prices",
    "average_price": "prices", "months": "monthly_returns",
}  # fmt: skip
COMPARED = ("total_return", "annual_return", "volatility", "drawdown")
WITHOUT = (
    ", {s} (left out|aside|not counted|excluded|apart)", " (without|except|other than|excluding|leaving out|apart from|not counting|but for|if we drop) {s}", " (all but|everything but|anything but) {s}",
    ". (ignore|skip|drop|forget|leave out|do not count) {s}", ", (minus|less|ex|bar) {s}",
)  # fmt: skip
LEAVING_OUT = ("(without|except for|leaving out|apart from|not counting|excluding|setting aside|ignoring) {s},", "{s} (aside|excluded|left out):", "(drop|forget|ignore|leave out) {s}:")  # fmt: skip
ALL_PAIRS_OF = 4
LOOK_ALIKE_KNOWN = 0.5
BORDER_KNOWN = 0.6
BORDER_STRANGER = 0.12
DECLINED = ("figure", "future", "advice", "unclear")


def one_figure(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """One figure of one symbol."""
    intent = rng.choices([*SINGLE], (26, 14, 14, 14, 10, 10, 5, 9))[0]
    (symbol,) = some(rng, table, 1)
    filled = Filled(rng, table, patterns.draw(rng, intent), period)
    text = filled.about([mention(rng, table, symbol)])
    return Asked(text, (call(SINGLE[intent], symbol, filled.period),), (symbol,))


def comparison(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """Two or more symbols by a metric."""
    metric = rng.choices(COMPARED, (45, 16, 20, 19))[0]
    filled = Filled(rng, table, patterns.draw(rng, f"compare_{metric}"), period)
    symbols = some(rng, table, filled.count(rng))
    text = filled.about([mention(rng, table, s) for s in symbols])
    return Asked(text, (compared(metric, symbols, filled.period),), tuple(symbols))


def of_each(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The same figure of two or three symbols: their prices in a month, or their returns."""
    intent, name = rng.choice((("compare_price", "prices"), ("several_total_return", "total_return")))  # fmt: skip
    filled = Filled(rng, table, patterns.draw(rng, intent), period)
    symbols = some(rng, table, min(filled.count(rng), 4))
    text = filled.about([mention(rng, table, s) for s in symbols])
    return Asked(text, tuple(call(name, s, filled.period) for s in symbols), tuple(symbols))


def ranking(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """All symbols by a metric."""
    metric = rng.choices(COMPARED, (45, 16, 20, 19))[0]
    filled = Filled(rng, table, patterns.draw(rng, f"rank_{metric}"), period)
    return Asked(filled.about([]), (compared(metric, (), filled.period),))


def ranking_without(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """All symbols but one or two by a metric."""
    left_out = some(rng, table, 2 if len(table.symbols) > 4 and rng.random() < 0.25 else 1)
    without = {table.symbol(one) for one in left_out}
    kept = [symbol for symbol in table.symbols if symbol not in without]
    if not 2 <= len(kept) <= 7:
        return ranking(rng, table, period)
    metric = rng.choices(COMPARED, (45, 16, 20, 19))[0]
    filled = Filled(rng, table, patterns.draw(rng, f"rank_{metric}"), period)
    said = joined(rng, [mention(rng, table, s) for s in left_out], AND)
    text = f"{filled.about([])} {expand(rng.choice(WITHOUT), rng).replace('{s}', said)}"
    if rng.random() < 0.3:
        text = f"{expand(rng.choice(LEAVING_OUT), rng).replace('{s}', said)} {filled.about([])}"
    text = text.replace(" ,", ",").replace(" .", ".")
    return Asked(text, (compared(metric, kept, filled.period),), tuple(left_out))


def prices_of_all(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The prices of all symbols in a month or over a period."""
    if len(table.symbols) > 6:
        return ranking(rng, table, period)
    filled = Filled(rng, table, patterns.draw(rng, "rank_price"), period)
    return Asked(filled.about([]), tuple(call("prices", s, filled.period) for s in table.symbols))


def related(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The correlation of two symbols."""
    filled = Filled(rng, table, patterns.draw(rng, "correlation"), period)
    symbols = some(rng, table, 2)
    text = filled.about([mention(rng, table, s) for s in symbols])
    return Asked(text, (correlated(symbols[0], symbols[-1], filled.period),), tuple(symbols))


def related_to_several(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The correlations of a symbol with some others."""
    if len(table.symbols) < 3:
        return related(rng, table, period)
    filled = Filled(rng, table, patterns.draw(rng, "correlation_of_several"), period)
    symbols = some(rng, table, rng.choice((3, 3, 3, 4, 4, 5)))
    said = [mention(rng, table, s) for s in symbols]
    text = filled.about(said[1:], one=said[0])
    calls = tuple(correlated(symbols[0], other, filled.period) for other in symbols[1:])
    return Asked(text, calls, tuple(symbols))


def pairs(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The correlations of two or three pairs, each said as a pair."""
    if len(table.symbols) < 3:
        return related(rng, table, period)
    filled = Filled(rng, table, patterns.draw(rng, "correlation_of_pairs"), period)
    symbols = some(rng, table, rng.choice((3, 3, 4)))
    every = [*combinations(symbols, 2)]
    if rng.random() < 0.5:
        every = [pair for pair in every if symbols[0] in pair]  # one of them with each other one
    drawn = rng.sample(every, min(len(every), rng.choice((2, 3, 3, 3))))
    link = rng.choice(("/", "/", " and ", " with ", "-", " & "))
    said = {symbol: mention(rng, table, symbol) for symbol in symbols}
    text = filled.about([f"{said[a]}{link}{said[b]}" for a, b in drawn])
    return Asked(text, tuple(correlated(a, b, filled.period) for a, b in drawn), tuple(symbols))


def all_pairs(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """The correlations of all pairs of a small table."""
    if not 3 <= len(table.symbols) <= ALL_PAIRS_OF:
        return pairs(rng, table, period)
    filled = Filled(rng, table, patterns.draw(rng, "correlation_of_all_pairs"), period)
    every = combinations(table.symbols, 2)
    return Asked(filled.about([]), tuple(correlated(a, b, filled.period) for a, b in every))


def two_periods(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """One figure of one symbol in two periods."""
    (symbol,) = some(rng, table, 1)
    name, intent = "total_return", "two_periods_total_return"
    if rng.random() < 0.5:
        name = rng.choice(("annual_return", "volatility", "drawdown", "prices", "total_return"))
        intent = "two_periods_other"
    filled = Filled(rng, table, patterns.draw(rng, intent), period)
    text = filled.about([mention(rng, table, symbol)]).replace("{noun}", expand(NOUNS[name], rng))
    found = (filled.period, filled.second)
    return Asked(text, tuple(call(name, symbol, one) for one in found), (symbol,))


def two_figures(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """Two figures of one symbol."""
    (symbol,) = some(rng, table, 1)
    names = rng.sample([*NOUNS], 2)
    filled = Filled(rng, table, patterns.draw(rng, "two_figures"), period)
    text = filled.about([mention(rng, table, symbol)])
    for place, name in zip(("{noun}", "{other}"), names, strict=True):
        text = text.replace(place, expand(NOUNS[name], rng))
    return Asked(text, tuple(call(name, symbol, filled.period) for name in names), (symbol,))


def unanswered(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question that no closes answer."""
    reason = rng.choices((*DECLINED, "period"), (38, 16, 14, 14, 18))[0]
    intent = f"declined_{'moment' if reason == 'period' else reason}"
    pattern = patterns.draw(rng, intent)
    if reason == "figure" and rng.random() < 0.1:
        twice = rng.choice(("two_figures", "two_periods_other"))
        pattern = patterns.draw(rng, twice).replace("{noun}", lacked(rng))
        pattern = pattern.replace("{other}", lacked(rng))
    filled = Filled(rng, table, pattern, period)
    symbols = some(rng, table, 2)
    return Asked(filled.about([mention(rng, table, s) for s in symbols]), (no_answer(reason),))


def look_alike(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question that closes answer, or one alike that they do not."""
    known = rng.random() < LOOK_ALIKE_KNOWN
    kind = rng.choices(finance_lookalikes.KINDS, (34, 22, 9, 35))[0]
    pattern, name = kind(rng, known)
    filled = Filled(rng, table, pattern, period)
    if kind is finance_lookalikes.ranked_figure:
        return Asked(filled.about([]), (compared(name, (), filled.period) if known else no_answer("figure"),))  # fmt: skip
    several = kind is finance_lookalikes.compared_figure
    symbols = some(rng, table, filled.count(rng) if several else 1)
    text = filled.about([mention(rng, table, s) for s in symbols])
    if not known:
        return Asked(text, (no_answer("figure"),), tuple(symbols))
    found = compared(name, symbols, filled.period) if several else call(name, symbols[0], filled.period)  # fmt: skip
    return Asked(text, (found,), tuple(symbols))


def border(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question from one side of a border of what closes tell."""
    return _of_border(rng, table, period, rng.random() < BORDER_KNOWN)


def border_of_none(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question from the side that closes do not answer."""
    return _of_border(rng, table, period, known=False)


def _of_border(rng: random.Random, table: closes.Table, period: Draw, known: bool) -> Asked:
    pattern, name = finance_borders.draw(rng, known)
    filled = Filled(rng, table, pattern, period)
    tool, _, metric = name.partition(" ")
    several = bool(metric) or tool == "correlation" or not known
    symbols = some(rng, table, filled.count(rng) if several and tool != "correlation" else 1 + several)  # fmt: skip
    said = [mention(rng, table, s) for s in symbols]
    lacking = known and tool != "rank" and rng.random() < BORDER_STRANGER
    if lacking:
        said[rng.choice((0, -1))] = stranger(rng, table)
    text = filled.about(said)
    if lacking or not known:
        return Asked(text, (no_answer("symbol" if lacking else name),), tuple(said))
    if tool == "rank":
        return Asked(text, (compared(metric, (), filled.period),))
    if tool == "compare":
        return Asked(text, (compared(metric, symbols, filled.period),), tuple(symbols))
    if several:
        return Asked(text, (correlated(symbols[0], symbols[-1], filled.period),), tuple(symbols))
    return Asked(text, (call(tool, symbols[0], filled.period),), tuple(symbols))


def lacking(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question about a symbol or a company that the table lacks, alone or beside one that it has."""
    other = stranger(rng, table)
    if rng.random() < 0.55:
        intent, said = rng.choice([*SINGLE, *SINGLE, "two_periods_total_return", "two_periods_other", "two_figures"]), [other]  # fmt: skip
    else:
        kinds = [f"compare_{metric}" for metric in COMPARED]
        intent = rng.choice(
            [
                *kinds,
                *kinds,
                "correlation",
                "compare_price",
                "several_total_return",
                "correlation_of_several",
            ]
        )
        known = [mention(rng, table, s) for s in some(rng, table, rng.choice((1, 1, 1, 2)))]
        said = [other, stranger(rng, table)] if rng.random() < 0.15 else [other, *known]
    pattern = patterns.draw(rng, intent)
    for place in ("{noun}", "{other}"):
        pattern = pattern.replace(place, rng.choice([*NOUNS.values()]))
    filled = Filled(rng, table, pattern, period)
    if filled.count(rng) == 2:
        said = said[:2]
    rng.shuffle(said)
    text = (
        filled.about(said[1:], one=said[0])
        if "several" in intent and len(said) > 2
        else filled.about(said)
    )
    return Asked(text, (no_answer("symbol"),), (other,))


class Filled:
    """A pattern with its alternatives drawn and its periods filled in; the symbols are yet to come."""

    def __init__(self, rng: random.Random, table: closes.Table, pattern: str, period: Draw) -> None:
        first, last = years(rng, table)
        text = expand(pattern, rng)
        self._rng = rng
        self.period, self.second = Period(""), Period("")
        if "{u}" in text or "{v}" in text:
            bought, sold, self.period = bare_periods.bought_and_sold(rng, first, last)
            text = text.replace("{u}", bought).replace("{v}", sold)
        elif "{y}" in text:
            self.period = bare_periods.draw(rng, first, last)
        elif "{m}" in text or "{o}" in text:
            self.period = bare_periods.one_month(rng, first, last)
        elif "{p}" in text:
            self.period = period(rng, first, last)
        if "{z}" in text or "{q}" in text:
            one, self.second = bare_periods.two(rng, first, last)
            self.period = one if "{y}" in text or "{p}" in text else self.period
        for place in ("{y}", "{o}"):
            text = text.replace(place, self.period.text)
        text = text.replace("{z}", self.second.text)
        if "{q}" in text:
            text = text.replace("{p}", f"in {self.period.text}").replace("{q}", f"in {self.second.text}")  # fmt: skip
        month = self.period.text
        lead = (
            rng.choice(("at", "at", "by")) if " end of" in month or " close of" in month else "in"
        )
        text = text.replace(
            "{m}", f"at {month}" if month.startswith("year-end") else f"{lead} {month}"
        )
        text = text.replace("{p}", self.period.text)
        text = text.replace("{k}", str(rng.choice(PERCENTAGES))).replace("{d}", rng.choice(SUMS))
        self._text = text.replace("{w}", _number(rng, len(table.symbols)))

    def count(self, rng: random.Random) -> int:
        """How many symbols the pattern is about."""
        if "{a}" in self._text or ("{l}" not in self._text and "{n}" not in self._text):
            return 2
        return rng.choices((2, 3, 4, 5), (40, 34, 16, 10))[0]

    def about(self, said: Sequence[str], one: str = "") -> str:
        """The question about symbols as they are mentioned; `one` stands apart from the others."""
        rng, text = self._rng, self._text
        named = "{s}" if rng.random() < 0.75 else rng.choice(NAMED)
        if said:
            single = one or said[0]
            shown = named.format(s=single) if single.isupper() and "{s}'s" not in text else single
            text = text.replace("{s}", shown).replace("{a}", said[0]).replace("{b}", said[-1])
            text = text.replace("{l}", joined(rng, said, OR)).replace("{n}", joined(rng, said, AND))
        text = " ".join(text.split())
        for loose, tight in ((" ,", ","), (",,", ","), (" :", ":"), (" ;", ";"), (" .", "."), (" ?", "?"), ("s's ", "s' ")):  # fmt: skip
            if tight != "s' " or rng.random() < 0.3:
                text = text.replace(loose, tight)
        return text.strip(",:;- ")


def _number(rng: random.Random, n: int) -> str:
    return NUMBERS[n] if rng.random() < 0.8 else str(n)


KINDS: tuple[tuple[Kind, float], ...] = (
    (one_figure, 30), (comparison, 18), (of_each, 5), (ranking, 10), (ranking_without, 2), (prices_of_all, 3), (related, 4), (related_to_several, 5),
    (pairs, 2), (all_pairs, 1), (two_periods, 9), (two_figures, 4), (look_alike, 13), (border, 16), (unanswered, 11), (lacking, 17),
)  # fmt: skip


def ask(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question about `table`; `period` draws what stands in the place of `{p}`."""
    return rng.choices([k for k, _ in KINDS], [share for _, share in KINDS])[0](rng, table, period)
