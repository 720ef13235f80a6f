"""The held-out questions: blind ones, hand-written ones, and ones from a generator of their own.

The hand-written ones were at hand while the corpus grew. The blind ones were written by someone who had seen neither
the corpus nor a verdict, and were committed before any model was asked one of them: 78 with the calls that answer them,
later 187 with a solver's figures, then 180 more, the unseen ones, when the corpus had been widened after the verdicts on
those, and 150 fresh ones when calls had come to take names. 120 more, on the limits of the data, chose among weights.
The generator shares no template, no phrase list and no code with the training
corpus, and asks only about the five real symbols, which the corpus never mentions, and about tables of its own.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from held_out.tables import TABLES

ORIGINS = ("fresh", "unseen", "limits", "solved", "blind", "handwritten", "generated", "tables")
SYMBOLS = ("MSFT", "AMZN", "IBM", "GOOG", "AAPL")
SEED = 7
YEARS = range(2004, 2010)
GENERATED = 136
OF_A_TABLE = 34
MONTH = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")  # fmt: skip

FRACTIONS = frozenset(
    {
        "total_return",
        "annualised_return",
        "max_drawdown",
        "volatility_annualised",
        "best_month",
        "worst_month",
    }
)

Call = tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, where its wording comes from, and the calls that answer it."""

    text: str
    origin: str
    calls: tuple[Call, ...] = ()
    data: str = ""  # a table of `held_out/tables.py`, by default the shipped one
    figures: tuple[tuple[tuple[str, ...], float], ...] | None = None
    """In place of calls: the values that a solver found, each with the symbols that it is of; empty without an answer."""
    about: tuple[str, ...] = ()  # the symbols that a report may speak of, with `figures`


def written(origin: str) -> list[Question]:
    """The questions of `<origin>.jsonl`, with the calls that a careful analyst makes."""
    lines = (Path(__file__).parent / f"{origin}.jsonl").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return [Question(e["question"], origin, tuple((n, a) for n, a in e["calls"])) for e in entries]


def solved() -> list[Question]:
    """The second blind questions: their returns, drawdowns and volatilities are fractions."""
    return _with_figures("solved", 100.0)


def unseen() -> list[Question]:
    """The third blind questions: their returns, drawdowns and volatilities are percentages."""
    return _with_figures("unseen", 1.0)


def fresh() -> list[Question]:
    """The fourth blind questions: figures as those of the third."""
    return _with_figures("fresh", 1.0)


def limits() -> list[Question]:
    """Questions about what the data do not tell, and alike ones that they do: figures as those of the second."""
    return _with_figures("limits", 100.0)


def _with_figures(origin: str, percent: float) -> list[Question]:
    """Questions with a solver's figures in place of calls; some have no answer."""
    lines = (Path(__file__).parent / f"{origin}.jsonl").read_text("utf-8").splitlines()
    return [_solved(json.loads(line), origin, percent) for line in lines]


def _solved(entry: dict[str, Any], origin: str, percent: float) -> Question:
    """A question whose fractions are `percent` when they are one; a monthly volatility stands beside a yearly one."""
    about = tuple(entry["symbols"])
    figures = entry["expected"]["figures"] if entry["answerable"] else []
    found = []
    for figure in figures:
        if figure["metric"] == "volatility_monthly":
            continue
        named = tuple(symbol for symbol in about if symbol in figure["symbol"])
        scale = percent if figure["metric"] in FRACTIONS else 1.0
        found.append((named or (figure["symbol"],), scale * float(figure["value"])))
    return Question(entry["question"], origin, figures=tuple(found), about=about)


def handwritten() -> list[Question]:
    """The questions that were written by hand first."""
    return written("handwritten")


def blind() -> list[Question]:
    """The questions whose writer had not seen the corpus."""
    return written("blind")


def generated() -> list[Question]:
    """The questions that this file's own generator makes, always the same ones."""
    rng = random.Random(SEED)
    questions: dict[str, Question] = {}
    while len(questions) < GENERATED:
        question = _question(rng)
        questions[question.text] = question
    return list(questions.values())


def every() -> list[Question]:
    """All held-out questions; one that two writers thought of counts among the newer ones."""
    found: dict[tuple[str, str], Question] = {}
    for question in (
        fresh()
        + unseen()
        + limits()
        + solved()
        + blind()
        + handwritten()
        + generated()
        + of_tables()
    ):
        found.setdefault((question.data, question.text), question)
    return list(found.values())


def of_tables() -> list[Question]:
    """Plain questions about tables of other symbols, other decades and other spacing."""
    rng = random.Random(SEED)
    found: dict[str, Question] = {}
    for name, table in TABLES.items():
        symbols = table.symbols()
        before = len(found)
        while len(found) < before + OF_A_TABLE:
            question = _question(rng, symbols, table.years())
            found[question.text] = replace(question, origin="tables", data=name)
    return list(found.values())


def _span(rng: random.Random, years: range) -> tuple[str, dict[str, str]]:
    """A period in words and as arguments."""
    first, last = sorted(rng.sample(years, 2))
    m, n = rng.randrange(12), rng.randrange(12)
    iso = f"{first}-{m + 1:02}", f"{last}-{n + 1:02}"
    return rng.choice([
        (f"during {first}", {"start": f"{first}-01", "end": f"{first}-12"}),
        (f"in the year {last}", {"start": f"{last}-01", "end": f"{last}-12"}),
        (f"in {last}", {"start": f"{last}-01", "end": f"{last}-12"}),
        (f"from {first} to {last}", {"start": f"{first}-01", "end": f"{last}-12"}),
        (f"between {first} and {last}", {"start": f"{first}-01", "end": f"{last}-12"}),
        (f"over the {first}-{last} period", {"start": f"{first}-01", "end": f"{last}-12"}),
        (f"from {MONTH[m]} {first} to {MONTH[n]} {last}", {"start": iso[0], "end": iso[1]}),
        (f"between {MONTH[m]} {first} and {MONTH[n]} {last}", {"start": iso[0], "end": iso[1]}),
        (f"since {first}", {"start": f"{first}-01"}),
        (f"since {MONTH[m]} {first}", {"start": iso[0]}),
        ("", {}),
    ])  # fmt: skip


ONE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("total_return", (
        "{p}, what total return came out of {x}?", "Please work out the overall gain of {x} {p}.", "I held {x} {p}; what did that bring in percent?",
        "What percentage did a holder of {x} win or lose {p}?", "Total performance of {x} {p}, please", "Say I kept {x} {p}. What is my profit?",
    )),
    ("annual_return", (
        "What yearly return did a holder of {x} enjoy {p}?", "{p}: annualised return on {x}?", "Average annual growth of {x} {p}, please.",
        "How much did {x} gain on average each year {p}?", "Could you state the CAGR for {x} {p}?", "On a per-year basis, what did {x} return {p}?",
    )),
    ("volatility", (
        "How shaky was {x} {p}?", "Volatility of {x} {p}, please.", "Please quantify the risk in {x} {p}.", "How wild were the swings of {x} {p}?",
        "I worry about price swings; how big was the volatility of {x} {p}?", "How much did the returns of {x} vary {p}?",
    )),
    ("drawdown", (
        "What was the deepest fall of {x} from a peak {p}?", "Max drawdown for {x} {p}, please.", "How far below its high did {x} slide {p}?",
        "Looking at {x} {p}, what was the worst drawdown?", "What is the largest peak-to-trough loss that {x} suffered {p}?", "How deep did {x} drop from the top {p}?",
    )),
    ("prices", (
        "What were the highest and lowest prices of {x} {p}?", "In which range did {x} trade {p}?", "Show the price range of {x} {p}.",
        "What did {x} cost at its lowest {p}?", "List first and last close of {x} {p}.", "How high did the price of {x} get {p}?",
    )),
)  # fmt: skip
TWO: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("total_return", (
        "{p}, did {x} or {y} gain more?", "Which had the larger total return {p}: {x} or {y}?", "Set {x} against {y}: who performed better {p}?",
        "Was {x} the better performer than {y} {p}?", "Whose total return was greater {p}, that of {x} or that of {y}?",
    )),
    ("annual_return", (
        "Which of the pair {x} and {y} had more annual return {p}?", "Per year, who returned more {p}, {x} or {y}?", "Compare the annualised returns of {x} and {y} {p}.",
    )),
    ("volatility", (
        "Who was more volatile {p}, {x} or {y}?", "Which carried less risk {p}: {x} or {y}?", "Compare {x} with {y} by volatility {p}.",
        "Did {x} have a higher volatility than {y} {p}?",
    )),
    ("drawdown", (
        "Whose drawdown was deeper {p}, {x} or {y}?", "Which fell more from its peak {p}, {x} or {y}?", "Compare the worst drawdowns of {x} and {y} {p}.",
    )),
    ("correlation", (
        "Please compute how {x} and {y} correlate {p}.", "What was the correlation between {x} and {y} {p}?", "How much did {x} and {y} move together {p}?",
        "Is there a strong correlation of {x} with {y} {p}?",
    )),
)  # fmt: skip


def _question(
    rng: random.Random, symbols: Sequence[str] = SYMBOLS, years: range = YEARS
) -> Question:
    words, span = _span(rng, years)
    x, y = rng.sample(symbols, 2)
    kind = rng.random()
    calls: list[Call]
    if kind < 0.48:
        metric, patterns = rng.choice(ONE)
        text, calls = rng.choice(patterns), [(metric, {"symbol": x, **span})]
    elif kind < 0.9:
        metric, patterns = rng.choice(TWO)
        text = rng.choice(patterns)
        if metric == "correlation":
            calls = [("correlation", {"first": x, "second": y, **span})]
        else:
            calls = [(metric, {"symbol": s, **span}) for s in (x, y)]
            calls.append(("compare", {"metric": metric, "symbols": [x, y], **span}))
    else:
        names = {
            "total_return": "total return",
            "annual_return": "annual return",
            "volatility": "volatility",
            "drawdown": "max drawdown",
        }
        one, two = rng.sample([*names], 2)
        text = rng.choice(
            (
                "I need two figures for {x} {p}: {1} and {2}.",
                "Both the {1} and the {2} of {x} {p}, please.",
                "{x} {p}: what were {1} and {2}?",
            )
        )
        text = text.replace("{1}", names[one]).replace("{2}", names[two])
        calls = [(one, {"symbol": x, **span}), (two, {"symbol": x, **span})]
    text = text.replace("{x}", x).replace("{y}", y).replace("{p}", words)
    text = (
        " ".join(text.split())
        .replace(" ,", ",")
        .replace(" :", ":")
        .replace(" .", ".")
        .replace(" ?", "?")
        .replace(" ;", ";")
        .lstrip(",:; ")
    )
    return Question(text[:1].upper() + text[1:], "generated", tuple(calls))
