"""The corpus: the same for the same seed, true to its tools, silent about what is held out."""

import json
import random
import re

import pytest
from corpus import arithmetic, finance
from corpus.mix import SHARES, draw
from held_out.questions import SYMBOLS, blind, every, handwritten
from market import Table

TRANSCRIPTS = [draw(100, index) for index in range(600)]
TEXTS = [transcript.text for transcript in TRANSCRIPTS]


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
    assert not {finance.random_symbol(rng) for _ in range(20_000)} & set(SYMBOLS)


def test_every_number_of_a_report_is_in_a_result():
    """What the model is taught to say is grounded."""
    for transcript in TRANSCRIPTS:
        if transcript.kind == "finance":
            results = " ".join(m["content"] for m in transcript.messages if m["role"] == "tool")
            known = set(re.findall(r"-?\d+\.?\d*", results))
            report = json.loads(transcript.messages[-1]["content"])
            assert {str(figure["value"]) for figure in report["figures"]} <= known
            words = transcript.messages[3]["content"]
            assert not report["answer"].startswith("No figure") or words.startswith("error: ")


def test_says_why_there_is_no_figure():
    """A tool's error becomes the answer."""
    error = finance.run(Table({"AA": ()}), ("prices", {"symbol": "ZZ"}))
    assert error == "error: no symbol ZZ"
    assert finance.report([error]) == {"answer": "No figure: no symbol ZZ.", "figures": []}


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
