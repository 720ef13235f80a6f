"""Transcripts of `programs/finance.py`: a random table, a question about it, the plan, the tools' real results, the report."""

import random
from collections.abc import Callable, Sequence

import market as market

from corpus.asked import Asked, Call
from corpus.example import (
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
from corpus.finance_questions import ask
from corpus.finance_tables import closes, random_table

SYSTEM = "You are a market analyst. Use only the numbers of the tools."
FUNCTIONS: dict[str, Callable[..., list[market.Figure]]] = {f.__name__: f for f in (
    market.prices, market.total_return, market.annual_return, market.volatility, market.drawdown, market.monthly_returns, market.compare,
    market.correlation, market.unanswerable,
)}  # fmt: skip
REQUIRED = {"compare": ("metric",), "correlation": ("first", "second"), "unanswerable": ("reason",)}
SPAN = ("start", "end", "months")
OPTIONAL = {"compare": ("symbols", *SPAN), "unanswerable": ()}
TOOLS = tuple(
    tool_spec(name, str(f.__doc__), REQUIRED.get(name, ("symbol",)), OPTIONAL.get(name, SPAN))
    for name, f in FUNCTIONS.items()
)
FIGURES = 12

Outcome = list[market.Figure] | str
"""What a tool said: its figures, or why there are none."""


def example(rng: random.Random) -> Example:
    """A whole transcript."""
    table = random_table(rng)
    asked = ask(rng, table)
    outcomes = [run(table, call) for call in asked.calls]
    messages: list[Message] = [
        *planned(table, asked),
        *(tool_result(content(outcome)) for outcome in outcomes),
        user("Write the report."),
        assistant(compact(report(asked.calls, outcomes))),
    ]
    return Example("finance", tuple(messages), (True, True), TOOLS)


def run(table: closes.Table, call: Call) -> Outcome:
    """What the tool answers: its result, or the error as the runtime puts it into the chat."""
    name, arguments = call
    try:
        return FUNCTIONS[name](table, **arguments)
    except closes.TableError as error:
        return f"error: {error}"


def content(outcome: Outcome) -> str:
    """An outcome as the chat shows it."""
    if isinstance(outcome, str):
        return outcome
    return compact([figure.model_dump() for figure in outcome])


def plans(rng: random.Random, count: int) -> list[Example]:
    """Questions about one table, each with its plan alone; what comes before the questions is the same text."""
    table = random_table(rng)
    every = [ask(rng, table) for _ in range(count)]
    return [Example("finance", planned(table, asked), (True,), TOOLS) for asked in every]


def planned(table: closes.Table, asked: Asked) -> tuple[Message, ...]:
    """The conversation up to the plan."""
    question = user(f"Symbols: {table.shown}\nQuestion: {asked.question}")
    return system(SYSTEM), question, assistant_calls(asked.calls)


def report(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The report that these results support, each figure copied from one of them; else the reason why there is none."""
    sentences: list[str] = []
    figures: list[market.Figure] = []
    for (name, _), outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, str):
            return {"reason": outcome.removeprefix("error: ")}
        figures.extend(outcome)
        sentences.append(_verdict(outcome) if name == "compare" else _caption(outcome))
    listed = [figure.model_dump() for figure in figures[:FIGURES]]
    return {"figures": listed, "answer": " ".join(dict.fromkeys(sentences))}


def _caption(found: list[market.Figure]) -> str:
    """What the figures of a result are, in words alone: the numbers stand in the records."""
    noun = "figures" if len(found) > 1 else found[0].metric.removesuffix(" %")
    return f"The {noun} of {found[0].symbol}."


def _verdict(ranked: list[market.Figure]) -> str:
    """The first and the last of a comparison."""
    placed = [figure for figure in ranked if not figure.metric.endswith(" gap")]
    if len(placed) < 2:
        return _caption(placed)
    more, less = ("higher", "lower") if len(placed) == 2 else ("highest", "lowest")
    noun = placed[0].metric.removesuffix(" %")
    return f"{placed[0].symbol} had the {more} {noun}, {placed[-1].symbol} the {less}."
