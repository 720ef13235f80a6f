"""Questions about a random table, each with the calls that answer it, or with the one that says why none does."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from corpus import (
    finance_declined,
    finance_free,
    finance_halves,
    finance_patterns,
    periods,
    relative_periods,
)
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
from corpus.finance_rankings import ANY_FIGURE, ANY_TWICE, RANKINGS, TWO_PERIODS
from corpus.finance_tables import closes
from corpus.finance_words import ASK, ASK_MANY, COMPARE, CORRELATION, NAMED, NOUNS, SINGLE
from corpus.periods import Period
from corpus.wording import as_typed, expand

METRICS: tuple[str, ...] = ("total_return", "annual_return", "volatility", "drawdown")
ONE_SYMBOL = ("prices", *METRICS)
PATTERNS_SHARE = 0.6
HALVES_SHARE = 0.07


def ask(rng: random.Random, table: closes.Table) -> Asked:
    """A question about `table`."""
    kinds: tuple[tuple[Callable[[random.Random, closes.Table], Asked], float], ...] = (
        (one_figure, 28), (two_figures, 7), (same_figure, 7), (comparison, 20), (ranking, 8), (related, 7),
        (two_questions, 6), (two_periods, 5), (declined, 12),
    )  # fmt: skip
    pick = rng.random()
    if pick < HALVES_SHARE:
        asked = finance_halves.ask(rng, table, _between)
    elif pick < HALVES_SHARE + PATTERNS_SHARE:
        asked = finance_patterns.ask(rng, table, _between)
        if rng.random() < 0.1:
            asked = replace(asked, question=finance_free.amid_talk(rng, asked.question))
    else:
        asked = rng.choices([k for k, _ in kinds], [share for _, share in kinds])[0](rng, table)
    keep = asked.keep if rng.random() < 0.5 else ()
    return replace(asked, question=as_typed(asked.question, rng, keep))


def one_figure(rng: random.Random, table: closes.Table) -> Asked:
    """One metric of one symbol."""
    (symbol,) = some(rng, table, 1)
    name = rng.choices(ONE_SYMBOL, (20, 26, 18, 18, 18))[0]
    period = _period(rng, table, name)
    pattern = single_pattern(rng, name)
    if rng.random() < 0.12:
        pattern = finance_free.told_before(rng, expand(pattern, rng))
    pattern = _amid_talk(rng, pattern)
    text = place(rng, pattern, [mention(rng, table, symbol)], period)
    return Asked(text, (call(name, symbol, period),), (symbol,))


def single_pattern(rng: random.Random, name: str) -> str:
    """A way to ask for one figure of `{s}`."""
    pick = rng.random()
    if pick < 0.18:
        return f"{ASK} (the |the |){NOUNS[name]} (of|for|of|on) {{s}} {{p}}"
    if pick < 0.27:
        return f"{ASK} {{s}}'s {NOUNS[name]} {{p}}"
    if pick < 0.42:
        return finance_free.telegram(rng, name)
    return rng.choice(SINGLE[name])


def two_figures(rng: random.Random, table: closes.Table) -> Asked:
    """Two or three metrics of one symbol."""
    names = rng.sample(ONE_SYMBOL, 2 if rng.random() < 0.8 else 3)
    (symbol,) = some(rng, table, 1)
    period = _period(rng, table)
    nouns = [f"(the |the |){NOUNS[name]}" for name in names]
    listed = (
        ", ".join(nouns[:-1]) + "(,|) (and|and|and|as well as|plus) " + nouns[-1]
        if len(nouns) > 2
        else nouns[0] + " (and|and|and|and also|as well as|plus|together with) " + nouns[1]
    )
    pattern = rng.choice((f"{ASK_MANY} {listed} (of|for|of|on) {{s}} {{p}}", f"{ASK_MANY} {{s}}'s {listed} {{p}}", f"{{s}} {{p}}: {listed}", f"(for|about) {{s}}, {ASK_MANY} {listed} {{p}}", f"{listed} of {{s}} {{p}}", f"{{s}} {listed} {{p}}"))  # fmt: skip
    if len(names) == 2 and rng.random() < 0.3:
        one, two = (
            rng.choice([q for q in SINGLE[name] if "{s}" in q and not q.startswith("{s}")])
            for name in names
        )
        second = two.replace("{s}'s", "its").replace("{s}", "it").replace("{p}", "")
        pattern = f"{one},( and|) {second}"
    text = place(rng, pattern, [mention(rng, table, symbol)], period)
    return Asked(text, tuple(call(n, symbol, period) for n in names), (symbol,))


def same_figure(rng: random.Random, table: closes.Table) -> Asked:
    """One metric of two or three symbols, without a comparison."""
    name = rng.choice(ONE_SYMBOL)
    symbols = some(rng, table, 3 if name != "prices" and rng.random() < 0.2 else 2)
    period = _period(rng, table, name)
    pattern = rng.choice((
        f"{ASK_MANY} (the |){NOUNS[name]} (of|for) (both |each of |){{n}} {{p}}",
        f"{ASK_MANY} {NOUNS[name]} {{p}} (for|of) {{n}}",
        f"{NOUNS[name]} of {{n}} {{p}}",
        f"{NOUNS[name]} for {{n}}, {{p}}",
        rng.choice([q for q in SINGLE[name] if "{s}'s" not in q]).replace("{s}", "{n}").replace(" was ", " were "),
    ))  # fmt: skip
    text = place(rng, pattern, [mention(rng, table, s) for s in symbols], period)
    return Asked(text, tuple(call(name, s, period) for s in symbols), tuple(symbols))


def comparison(rng: random.Random, table: closes.Table) -> Asked:
    """Which of some symbols has more of a metric."""
    metric = rng.choices(METRICS, (45, 16, 22, 17))[0]
    pick = rng.random()
    if pick < 0.15:
        pattern = finance_free.telegram_of_two(rng, metric)
    elif pick < 0.27:
        pattern = finance_free.fronted(rng, metric)
    else:
        pattern = rng.choice(COMPARE[metric])
    pattern = _amid_talk(rng, pattern)
    more = "{a}" not in pattern and len(table.symbols) > 2 and rng.random() < 0.35
    symbols = some(rng, table, rng.choice((3, 3, 3, 4, 4, 5)) if more else 2)
    period = _period(rng, table)
    text = place(rng, pattern, [mention(rng, table, s) for s in symbols], period)
    return Asked(text, (compared(metric, symbols, period),), tuple(symbols))


def ranking(rng: random.Random, table: closes.Table) -> Asked:
    """Which of all symbols has the most of a metric."""
    metric = rng.choices(METRICS, (45, 16, 22, 17))[0]
    pattern = rng.choice(RANKINGS[metric])
    if rng.random() < 0.25:
        pattern = rng.choice(ANY_FIGURE).replace("{noun}", NOUNS[metric])
    period = _period(rng, table)
    return Asked(
        place(rng, _amid_talk(rng, pattern), ["it"], period), (compared(metric, (), period),)
    )


def related(rng: random.Random, table: closes.Table) -> Asked:
    """The correlation of two symbols."""
    symbols = some(rng, table, 2)
    period = _period(rng, table)
    free = rng.random() < 0.15
    pattern = finance_free.telegram_of_relation(rng) if free else rng.choice(CORRELATION)
    text = place(rng, _amid_talk(rng, pattern), [mention(rng, table, s) for s in symbols], period)
    return Asked(text, (correlated(symbols[0], symbols[-1], period),), tuple(symbols))


def two_questions(rng: random.Random, table: closes.Table) -> Asked:
    """Two questions in one breath."""
    first = one_figure(rng, table)
    second = rng.choices((one_figure, related), (85, 15))[0](rng, table)
    link = rng.choice((", and ", " and ", "? ", "? And ", "? Also, ", "; ", ". ", ", then ", "? Then: ", " and also "))  # fmt: skip
    text = first.question + link + second.question
    return Asked(text, first.calls + second.calls, first.keep + second.keep)


def two_periods(rng: random.Random, table: closes.Table) -> Asked:
    """One metric of one symbol in two periods."""
    name = rng.choices(ONE_SYMBOL, (15, 40, 10, 20, 15))[0]
    (symbol,) = some(rng, table, 1)
    first, last = years(rng, table)
    one, two = (rng.choice((periods.year, periods.year, periods.years, periods.part_of_year))(rng, first, last) for _ in range(2))  # fmt: skip
    pattern = rng.choice(TWO_PERIODS[name])
    if rng.random() < 0.35:
        pattern = rng.choice(ANY_TWICE).replace("{noun}", NOUNS[name])
    text = place(rng, expand(pattern, rng), [mention(rng, table, symbol)], one, front=False)
    calls = tuple(call(name, symbol, period) for period in (one, two))
    return Asked(text.replace("{q}", two.text), calls, (symbol,))


def declined(rng: random.Random, table: closes.Table) -> Asked:
    """A question that the table does not answer."""
    reason = rng.choices(("figure", "symbol", "period", "future", "advice", "unclear"), (34, 24, 14, 12, 9, 7))[0]  # fmt: skip
    symbols = [mention(rng, table, s) for s in some(rng, table, 2)]
    period = _period(rng, table)
    if reason == "symbol":
        return lacking(rng, table)
    if reason == "figure":
        pattern = finance_declined.figure(rng)
    elif reason == "period":
        name = rng.choice(ONE_SYMBOL)
        pattern = (
            single_pattern(rng, name)
            if rng.random() < 0.75
            else rng.choice(COMPARE["total_return"])
        )
        month, at = rng.choice(periods.MONTHS), rng.randrange(12)
        first, last = years(rng, table)
        at = periods.MONTHS.index(month)
        period = Period(finance_declined.moment(rng, rng.randint(first, last), month, at))
    elif reason == "future":
        pattern = finance_declined.future(rng).replace("{x}", symbols[-1])
    else:
        pattern = (
            finance_declined.advice(rng) if reason == "advice" else finance_declined.unclear(rng)
        )
    if reason != "unclear":
        pattern = _amid_talk(rng, pattern)
    text = place(rng, pattern, symbols, period)
    return Asked(text, (no_answer(reason),))


def lacking(rng: random.Random, table: closes.Table) -> Asked:
    """A question about a symbol or a company that the table lacks."""
    other = stranger(rng, table)
    said = [other]
    pick = rng.random()
    if pick < 0.6:
        pattern = single_pattern(rng, rng.choice(ONE_SYMBOL))
    else:
        said = [other, *(mention(rng, table, s) for s in some(rng, table, 1))]
        rng.shuffle(said)
        pattern = rng.choice(COMPARE[rng.choice(METRICS)] if pick < 0.9 else CORRELATION)
    text = place(rng, _amid_talk(rng, pattern), said, _period(rng, table))
    return Asked(text, (no_answer("symbol"),), (other,))


def _period(rng: random.Random, table: closes.Table, name: str = "") -> Period:
    first, last = years(rng, table)
    if name == "prices" and rng.random() < 0.42:
        return periods.one_month(rng, first, last)
    if name in ("total_return", "prices") and rng.random() < 0.04:
        return relative_periods.a_month(rng, first, last)
    return _between(rng, first, last)


def _between(rng: random.Random, first: int, last: int) -> Period:
    kinds = (
        (periods.draw, 64), (periods.whole, 6), (relative_periods.recent, 7), (relative_periods.onward, 4),
        (relative_periods.backward, 4), (relative_periods.unusual, 15),
    )  # fmt: skip
    return rng.choices([k for k, _ in kinds], [share for _, share in kinds])[0](rng, first, last)


def _amid_talk(rng: random.Random, pattern: str) -> str:
    return finance_free.amid_talk(rng, expand(pattern, rng)) if rng.random() < 0.16 else pattern


def place(rng: random.Random, pattern: str, words: Sequence[str], period: Period, front: bool = True) -> str:  # fmt: skip
    """The pattern as a sentence about these symbols, as they are mentioned, and this period."""
    text = expand(pattern, rng)
    if front and period.text and "{p}" in text and rng.random() < 0.17 and not text.startswith("{"):
        text = f"{period.text}{rng.choice((', ', ', ', ' '))}{text.replace('{p}', '')}"
    named = rng.choice(NAMED) if rng.random() < 0.3 else "{s}"
    if "{s}'s" in text:
        named = "{s}"
    words = [named.format(s=word) if word.isupper() else word for word in words]
    a, b = words[0], words[-1]
    text = text.replace("{s}", a).replace("{a}", a).replace("{b}", b).replace("{p}", period.text)
    text = text.replace("{l}", joined(rng, words, ("or", "or", "or", "or", "and", "vs", "/")))
    text = text.replace("{n}", joined(rng, words, ("and", "and", "and", "and", "&", "with")))
    text = " ".join(text.split()).replace(" ,", ",").replace(",,", ",").replace(" :", ":")
    return text.rstrip(",: ")
