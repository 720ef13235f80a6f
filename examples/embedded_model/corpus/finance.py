"""Transcripts of `programs/finance.py`: a random table, a question about it, the plan, the tools' real results, the report."""

import random
import string
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

from corpus import finance_free, periods
from corpus.example import (
    PROGRAMS,
    Example,
    Message,
    assistant,
    assistant_calls,
    compact,
    system,
    tool_result,
    tool_spec,
    user,
)  # fmt: skip
from corpus.finance_words import ASK, ASK_MANY, COMPARE, CORRELATION, NAMED, NOUNS, SINGLE
from corpus.periods import Period
from corpus.wording import as_typed, expand

sys.path.insert(0, str(PROGRAMS))
import market

HELD_OUT_SYMBOLS = frozenset({"MSFT", "AMZN", "IBM", "GOOG", "AAPL"})
SYSTEM = "You are a market analyst. Use only the numbers of the tools."
METRICS: tuple[market.Metric, ...] = ("total_return", "annual_return", "volatility", "drawdown")
ONE_SYMBOL = ("prices", *METRICS)
FUNCTIONS: dict[str, Callable[..., market.Fact]] = {f.__name__: f for f in (
    market.prices, market.total_return, market.annual_return, market.volatility, market.drawdown, market.compare,
    market.correlation,
)}  # fmt: skip
REQUIRED = {"compare": ("metric", "symbols"), "correlation": ("first", "second")}
TOOLS = tuple(
    tool_spec(name, str(f.__doc__), REQUIRED.get(name, ("symbol",)), ("start", "end"))
    for name, f in FUNCTIONS.items()
)

Call = tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the calls that answer it."""

    question: str
    calls: tuple[Call, ...]
    keep: tuple[str, ...] = field(default=())


def example(rng: random.Random) -> Example:
    """A whole transcript."""
    table = random_table(rng)
    asked = ask(rng, table)
    outcomes = [run(table, call) for call in asked.calls]
    messages: list[Message] = [
        system(SYSTEM),
        user(f"Symbols: {table.symbols}\nQuestion: {asked.question}"),
        assistant_calls(asked.calls),
        *(
            tool_result(outcome if isinstance(outcome, str) else compact(outcome))
            for outcome in outcomes
        ),
        user("Write the report."),
        assistant(compact(report(outcomes))),
    ]
    return Example("finance", tuple(messages), (True, True), TOOLS)


def random_symbol(rng: random.Random) -> str:
    """A ticker that is none of the held-out ones."""
    letters = "".join(
        rng.choices(string.ascii_uppercase, k=rng.choices((1, 2, 3, 4, 5), (3, 8, 30, 45, 14))[0])
    )
    if rng.random() < 0.04:
        letters += rng.choice((".A", ".B", "-USD", "2", "3", "X1", "50"))
    return random_symbol(rng) if letters in HELD_OUT_SYMBOLS else letters


def random_table(rng: random.Random) -> market.Table:
    """Monthly closes of a few random symbols; some begin later than the rest."""
    first = rng.randint(1965, 2020)
    count = 12 * rng.randint(3, 12) - rng.randrange(12)
    closes: dict[str, tuple[market.Close, ...]] = {}
    days = [date(first + i // 12, i % 12 + 1, 1) for i in range(count)]
    for _ in range(rng.choices((2, 3, 4, 5, 6, 7), (8, 15, 22, 35, 12, 8))[0]):
        price = 10 ** rng.uniform(0.2, 3.0)
        drift, spread = rng.gauss(0.006, 0.012), rng.uniform(0.02, 0.16)
        begin = rng.randrange(count // 2) if rng.random() < 0.15 else 0
        path = []
        for day in days[begin:]:
            path.append(market.Close(day, round(price, 2)))
            price = min(max(price * (1 + rng.gauss(drift, spread)), 0.5), 9000.0)
        closes[random_symbol(rng)] = tuple(path)
    return market.Table(closes)


def ask(rng: random.Random, table: market.Table) -> Asked:
    """A question about `table`."""
    kinds = (one_figure, two_figures, same_figure, comparison, related, two_questions, wrong_symbol)
    asked = rng.choices(kinds, (30, 9, 8, 32, 9, 9, 3))[0](rng, table)
    return Asked(as_typed(asked.question, rng, asked.keep), asked.calls, asked.keep)


def one_figure(rng: random.Random, table: market.Table) -> Asked:
    """One metric of one symbol."""
    return single(rng, rng.choice([*table.closes]), *_years(rng, table))


def single(rng: random.Random, symbol: str, first: int, last: int) -> Asked:
    """One metric of `symbol`."""
    name = rng.choice(ONE_SYMBOL)
    one_month = name == "prices" and rng.random() < 0.45
    period = periods.one_month(rng, first, last) if one_month else periods.draw(rng, first, last)
    pick = rng.random()
    if pick < 0.18:
        pattern = f"{ASK} (the |the |){NOUNS[name]} (of|for|of|on) {{s}} {{p}}"
    elif pick < 0.27:
        pattern = f"{ASK} {{s}}'s {NOUNS[name]} {{p}}"
    elif pick < 0.42:
        pattern = finance_free.telegram(rng, name)
    else:
        pattern = rng.choice(SINGLE[name])
    if rng.random() < 0.12:
        pattern = finance_free.told_before(rng, expand(pattern, rng))
    pattern = _amid_talk(rng, pattern)
    return Asked(place(rng, pattern, [symbol], period), (_call(name, symbol, period),), (symbol,))


def two_figures(rng: random.Random, table: market.Table) -> Asked:
    """Two or three metrics of one symbol."""
    names = rng.sample(ONE_SYMBOL, 2 if rng.random() < 0.8 else 3)
    symbol = rng.choice([*table.closes])
    period = periods.draw(rng, *_years(rng, table))
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
        pattern = (
            one
            + ",( and|and) "
            + two.replace("{s}'s", "its").replace("{s}", "it").replace("{p}", "")
        )
        pattern = pattern.replace("( and|and)", "( and|)")
    return Asked(
        place(rng, pattern, [symbol], period),
        tuple(_call(n, symbol, period) for n in names),
        (symbol,),
    )


def same_figure(rng: random.Random, table: market.Table) -> Asked:
    """One metric of two or three symbols, without a comparison."""
    name = rng.choice(ONE_SYMBOL)
    symbols = _some(rng, table, 2 if rng.random() < 0.8 else 3)
    period = periods.draw(rng, *_years(rng, table))
    pattern = rng.choice((
        f"{ASK_MANY} (the |){NOUNS[name]} (of|for) (both |each of |){{n}} {{p}}",
        f"{ASK_MANY} {NOUNS[name]} {{p}} (for|of) {{n}}",
        f"{NOUNS[name]} of {{n}} {{p}}",
        f"{NOUNS[name]} for {{n}}, {{p}}",
        rng.choice([q for q in SINGLE[name] if "{s}'s" not in q]).replace("{s}", "{n}").replace(" was ", " were "),
    ))  # fmt: skip
    return Asked(
        place(rng, pattern, symbols, period),
        tuple(_call(name, s, period) for s in symbols),
        tuple(symbols),
    )


def comparison(rng: random.Random, table: market.Table) -> Asked:
    """Which of some symbols has more of a metric: the metric of each, then the comparison."""
    metric = rng.choices(METRICS, (45, 16, 22, 17))[0]
    pick = rng.random()
    if pick < 0.15:
        pattern = finance_free.telegram_of_two(rng, metric)
    elif pick < 0.27:
        pattern = finance_free.fronted(rng, metric)
    else:
        pattern = rng.choice(COMPARE[metric])
    pattern = _amid_talk(rng, pattern)
    more = "{a}" not in pattern and len(table.closes) > 2 and rng.random() < 0.25
    symbols = _some(rng, table, 3 if more else 2)
    period = periods.draw(rng, *_years(rng, table))
    calls = [_call(metric, symbol, period) for symbol in symbols]
    calls.append(("compare", {"metric": metric, "symbols": symbols, **period.arguments}))
    return Asked(place(rng, pattern, symbols, period), tuple(calls), tuple(symbols))


def related(rng: random.Random, table: market.Table) -> Asked:
    """The correlation of two symbols."""
    symbols = _some(rng, table, 2)
    period = periods.draw(rng, *_years(rng, table))
    call: Call = ("correlation", {"first": symbols[0], "second": symbols[1], **period.arguments})
    free = rng.random() < 0.15
    pattern = finance_free.telegram_of_relation(rng) if free else rng.choice(CORRELATION)
    return Asked(place(rng, _amid_talk(rng, pattern), symbols, period), (call,), tuple(symbols))


def two_questions(rng: random.Random, table: market.Table) -> Asked:
    """Two questions in one breath."""
    first = one_figure(rng, table)
    second = rng.choices((one_figure, related), (85, 15))[0](rng, table)
    link = rng.choice(
        (
            ", and ",
            " and ",
            "? ",
            "? And ",
            "? Also, ",
            "; ",
            ". ",
            ", then ",
            "? Then: ",
            " and also ",
        )
    )
    return Asked(
        first.question + link + second.question,
        first.calls + second.calls,
        first.keep + second.keep,
    )


def wrong_symbol(rng: random.Random, table: market.Table) -> Asked:
    """A question about a symbol that the table lacks; the tool says so."""
    return single(rng, random_symbol(rng), *_years(rng, table))


def _amid_talk(rng: random.Random, pattern: str) -> str:
    return finance_free.amid_talk(rng, expand(pattern, rng)) if rng.random() < 0.16 else pattern


def place(rng: random.Random, pattern: str, symbols: Sequence[str], period: Period) -> str:
    """The pattern as a sentence about these symbols and this period."""
    text = expand(pattern, rng)
    if period.text and rng.random() < 0.17 and not text.startswith("{"):
        text = f"{period.text}{rng.choice((', ', ', ', ' '))}{text.replace('{p}', '')}"
    named = rng.choice(NAMED) if rng.random() < 0.35 else "{s}"
    if "{s}'s" in text:
        named = "{s}"
    words = [named.format(s=symbol) for symbol in symbols]
    a, b = words[0], words[-1]
    text = text.replace("{s}", a).replace("{a}", a).replace("{b}", b).replace("{p}", period.text)
    text = text.replace(
        "{l}", _joined(rng, words, ("or", "or", "or", "or", "and", "vs", "/"))
    ).replace("{n}", _joined(rng, words, ("and", "and", "and", "and", "&", "with")))
    return (
        " ".join(text.split())
        .replace(" ,", ",")
        .replace(",,", ",")
        .replace(" :", ":")
        .rstrip(",: ")
    )


def _joined(rng: random.Random, words: Sequence[str], links: Sequence[str]) -> str:
    link = rng.choice(links)
    if len(words) == 2:
        return f"{words[0]} {link} {words[1]}"
    return ", ".join(words[:-1]) + rng.choice((" ", ", ")) + f"{rng.choice(links[:2])} {words[-1]}"


def _some(rng: random.Random, table: market.Table, count: int) -> list[str]:
    return rng.sample([*table.closes], min(count, len(table.closes)))


def _years(rng: random.Random, table: market.Table) -> tuple[int, int]:
    closes = next(iter(table.closes.values()))
    first, last = closes[0].day.year, closes[-1].day.year
    return (first + 40, last + 40) if rng.random() < 0.02 else (first, last)


def _call(name: str, symbol: str, period: Period) -> Call:
    return name, {"symbol": symbol, **period.arguments}


def run(table: market.Table, call: Call) -> market.Fact | str:
    """What the tool answers: its result, or the error as the runtime puts it into the chat."""
    name, arguments = call
    try:
        return FUNCTIONS[name](table, **arguments)
    except market.TableError as error:
        return f"error: {error}"


def report(outcomes: Sequence[market.Fact | str]) -> dict[str, object]:
    """The report that these results support, each number copied from one of them."""
    sentences: list[str] = []
    figures: list[dict[str, object]] = []
    facts = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    compared = [fact for fact in facts if "metric" in fact]
    for outcome in outcomes:
        if isinstance(outcome, str):
            sentences.append(f"No figure: {outcome.removeprefix('error: ')}.")
        elif "metric" in outcome:
            sentences.append(_verdict(outcome, facts))
            figures.append({"name": "gap", "value": outcome["gap"]})
        else:
            if not compared:
                sentences.append(_sentence(outcome))
            figures.extend(_figures(outcome))
    return {"figures": figures[:8], "answer": " ".join(dict.fromkeys(sentences))}


def _sentence(fact: market.Fact) -> str:
    span = f"from {fact['start']} to {fact['end']}"
    if "correlation" in fact:
        return f"The correlation of {fact['first']} and {fact['second']} was {fact['correlation']} {span}."
    symbol = fact["symbol"]
    if "total_return_percent" in fact:
        return f"{symbol} returned {fact['total_return_percent']} % {span}."
    if "annual_return_percent" in fact:
        return f"{symbol} returned {fact['annual_return_percent']} % a year {span}."
    if "volatility_percent" in fact:
        return f"{symbol} had a volatility of {fact['volatility_percent']} % a year {span}."
    if "max_drawdown_percent" in fact:
        return f"{symbol} fell at most {fact['max_drawdown_percent']} % from a peak {span}."
    return f"{symbol} went from {fact['first']} to {fact['last']} {span}, low {fact['low']}, high {fact['high']}."


NAMES = {
    "total_return": "total return", "annual_return": "annual return", "volatility": "volatility", "drawdown": "drawdown",
}  # fmt: skip


def _verdict(fact: market.Fact, facts: Sequence[market.Fact]) -> str:
    key = {"drawdown": "max_drawdown_percent"}.get(str(fact["metric"]), f"{fact['metric']}_percent")
    values = {str(other["symbol"]): other[key] for other in facts if key in other}
    span = next(f"from {f['start']} to {f['end']}" for f in facts if key in f)
    high, low = str(fact["highest"]), str(fact["lowest"])
    more, less = ("higher", "lower") if len(values) == 2 else ("highest", "lowest")
    return f"{high} had the {more} {NAMES[str(fact['metric'])]} {span} with {values[high]} %, {low} the {less} with {values[low]} %."


def _figures(fact: market.Fact) -> list[dict[str, object]]:
    if "correlation" in fact:
        return [
            {"name": f"{fact['first']} {fact['second']} correlation", "value": fact["correlation"]}
        ]
    keys = [key for key in fact if key not in ("symbol", "start", "end")]
    return [
        {"name": f"{fact['symbol']} {key.replace('_', ' ')}", "value": fact[key]} for key in keys
    ]
