"""The corpus: the same for the same seed, true to its tools, silent about what is held out."""

import json
import random
import re
from typing import Any

import finance as program
import pytest
from closes import Table
from corpus import arithmetic, finance, finance_tables, periods, relative_periods
from corpus.asked import Call
from corpus.example import Example
from corpus.mix import SHARES, draw
from held_out.questions import SYMBOLS, blind, every, handwritten
from held_out.tables import TABLES
from pydantic import TypeAdapter

TRANSCRIPTS = [draw(100, index) for index in range(600)]
TEXTS = [transcript.text for transcript in TRANSCRIPTS]
OUTPUT: TypeAdapter[program.Report | program.Unanswerable] = TypeAdapter(
    program.Report | program.Unanswerable
)


def symbols_of(figures: list[dict[str, str]]) -> set[str]:
    """The symbols of figures, those of pairs each."""
    return {symbol for figure in figures for symbol in figure["symbol"].split(" & ")}


def symbols_called(arguments: dict[str, Any]) -> set[str]:
    """The symbols that a call is about."""
    one = {str(arguments[key]) for key in ("symbol", "first", "second") if key in arguments}
    return one | set(arguments.get("symbols", ()))


def finance_transcripts() -> list[tuple[random.Random, Example]]:
    """The finance transcripts, each with the state that it is drawn from."""
    rngs = [random.Random(f"replay:{index}") for index in range(250)]
    copies = [random.Random(f"replay:{index}") for index in range(250)]
    return list(zip(copies, map(finance.example, rngs), strict=True))


def test_is_the_same_for_the_same_seed():
    """Every transcript follows from seed and index alone."""
    assert [draw(100, index).text for index in range(40)] == TEXTS[:40]
    assert [draw(101, index).text for index in range(40)] != TEXTS[:40]


def test_holds_every_kind():
    """All programs are in the mix."""
    assert {transcript.kind for transcript in TRANSCRIPTS} == set(SHARES)


def test_never_names_a_held_out_symbol():
    """No real symbol, hence none of the tested (symbol, month) pairs, is in the training text."""
    found = [text for text in TEXTS if set(re.findall(r"[A-Z]+", text)) & set(SYMBOLS)]
    assert not found
    rng = random.Random(1)
    assert not {finance_tables.random_symbol(rng) for _ in range(20_000)} & set(SYMBOLS)


def test_replays_through_the_tools_of_the_program():
    """Each call is one that the program offers, each result what its tool says of that table."""
    tools = {tool.bind().spec.schema.name: tool for tool in program.TOOLS}
    asked, missed = set(), 0
    for rng, transcript in finance_transcripts():
        table = finance_tables.random_table(rng)
        head, _ = transcript.messages[1]["content"].split("\nQuestion: ")
        assert head == f"Symbols: {table.shown}"
        results = [m["content"] for m in transcript.messages if m["role"] == "tool"]
        calls = [call["function"] for call in transcript.messages[2]["tool_calls"]]
        for call, said in zip(calls, results, strict=True):
            asked.add(call["name"])
            known = tools[call["name"]].bind(table=None).spec.schema.parameters["properties"]
            assert list(call["arguments"]) == [k for k in known if k in call["arguments"]]
            missed += len(symbols_called(call["arguments"]) - set(table.identifiers))
            outcome = finance.run(table, (call["name"], call["arguments"]))
            assert said == finance.content(outcome)
    assert asked == set(tools)
    assert not missed


def test_teaches_only_what_the_program_can_say():
    """Every report reads back as the program's own type, figures and reasons as the tools say."""
    kinds = {"figures": 0, "reason": 0}
    for transcript in TRANSCRIPTS:
        if transcript.kind != "finance":
            continue
        results = [m["content"] for m in transcript.messages if m["role"] == "tool"]
        text = transcript.messages[-1]["content"]
        said = OUTPUT.validate_json(text)
        kinds[next(iter(json.loads(text)))] += 1
        if isinstance(said, program.Unanswerable):
            assert said.reason in [one.removeprefix("error: ") for one in results]
            continue
        known = [figure for one in results for figure in json.loads(one)]
        assert all(figure.model_dump() in known for figure in said.figures)
        words = said.answer
        for symbol in sorted(symbols_of(known), key=len, reverse=True):
            words = words.replace(symbol, "")
        assert words != said.answer
        assert not re.search(r"\d", words), said.answer
    assert min(kinds.values()) > 30


def test_says_why_there_is_no_figure():
    """A tool's error becomes the reason."""
    call: Call = ("prices", {"symbol": "ZZ"})
    error = finance.run(Table({"AA": ()}), call)
    assert error == "error: no symbol ZZ"
    assert finance.report([call], [error]) == {"reason": "no symbol ZZ"}


@pytest.mark.parametrize(
    "draw_one",
    [
        periods.draw,
        relative_periods.recent,
        relative_periods.onward,
        relative_periods.backward,
        relative_periods.unusual,
    ],
)
def test_periods_are_ranges_of_months(draw_one):
    """Every period has months in order, and words unless it is the whole table."""
    rng = random.Random(5)
    for _ in range(400):
        period = draw_one(rng, 1990, 2004)
        assert "(" not in period.text.replace("(1", "").replace("(2", "")
        assert "|" not in period.text
        for month in (period.start, period.end):
            assert month is None or re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month)
        if period.start and period.end:
            assert period.start <= period.end
            assert period.months is None


def test_shares_no_symbol_with_the_tables_that_are_held_out():
    """None of the invented symbols is drawn."""
    held_out = {
        symbol for table in TABLES.values() for symbol in table.symbols() if len(symbol) > 3
    }
    found = [text for text in TEXTS if any(symbol in text for symbol in held_out)]
    assert not found


@pytest.mark.parametrize(("a", "b"), [(47, 38), (10, 10), (99, 99), (52, 7), (30, 21)])
def test_arithmetic_is_right(a: int, b: int):
    """Each step of the working is true, and the digits make the answer."""
    for step in (*arithmetic.add(a, b), *arithmetic.subtract(a, b)):
        left, right = step.split("=")
        assert sum(int(term) for term in re.findall(r"[+-]?\d+", left)) == int(right)


def test_held_out_questions_are_enough():
    """At least 200 questions, at least 60 of each written kind, none twice."""
    questions = [question.text for question in every()]
    assert len(questions) >= 200
    assert len(handwritten()) >= 60
    assert len(blind()) >= 60
    assert len(set(questions)) == len(questions)
