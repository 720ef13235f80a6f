"""How the evaluation counts: the wanted figures and no others, and every number from a result."""

from typing import Any

import pytest
from closes import load
from corpus.finance import market
from evaluate import STOCKS, Heard, Verdict, figures, table
from evaluate import verdict as judged
from held_out.questions import Call, Question
from judging import Wanted, answers, grounded, numbers, wanted

SPAN = {"start": "2005-01", "end": "2009-12"}
IBM: Call = ("total_return", {"symbol": "IBM", **SPAN})
AAPL: Call = ("total_return", {"symbol": "AAPL", **SPAN})
BOTH: Call = ("compare", {"metric": "total_return", "symbols": ["AAPL", "IBM"], **SPAN})
LINKED: Call = ("correlation", {"first": "IBM", "second": "AAPL", **SPAN})
TABLE = load(STOCKS)
RESULTS = [
    [market.Figure(symbol="IBM", metric="total return %", period="2005-01 to 2009-12", value=-5.5)]
]


def told(*calls: Call) -> dict[str, object]:
    """A report with the figures of these calls."""
    found = [figure for name, a in calls for figure in getattr(market, name)(TABLE, **a)]
    return {"figures": [figure.model_dump() for figure in found], "answer": ""}


@pytest.mark.parametrize(
    ("asked", "said", "good"),
    [
        ((IBM,), (IBM,), True),
        ((IBM,), (AAPL,), False),
        ((IBM,), (("total_return", {"symbol": "ibm", **SPAN}),), True),
        ((IBM,), (IBM, AAPL), False),
        ((IBM,), (), False),
        ((IBM,), (("total_return", {"symbol": "IBM", "start": "2005-01"}),), False),
        ((IBM,), (("total_return", {"symbol": "IBM", "end": "2009-12", "months": 60}),), True),
        ((IBM,), (("annual_return", {"symbol": "IBM", **SPAN}),), False),
        ((IBM, AAPL, BOTH), (BOTH,), True),
        ((IBM, AAPL, BOTH), (AAPL, IBM), True),
        ((IBM, AAPL, BOTH), (AAPL,), False),
        ((LINKED,), (("correlation", {"first": "AAPL", "second": "IBM", **SPAN}),), True),
        ((LINKED,), (BOTH,), False),
    ],
)
def test_compares_figures(asked: tuple[Call, ...], said: tuple[Call, ...], good: bool):
    """Which calls gave the figures does not matter."""
    assert answers(told(*said), wanted(Question("?", "blind", asked), TABLE)) is good


def test_a_solver_may_say_what_is_wanted():
    """Its figures may differ in the last digit and in the sign of a fall."""
    figures = ((("AAPL", "IBM"), 0.42), (("IBM",), -3.0))
    two = wanted(Question("?", "blind", figures=figures), TABLE)
    said = [
        {"symbol": "IBM & AAPL", "metric": "correlation", "period": "", "value": 0.43},
        {"symbol": "IBM", "metric": "max drawdown %", "period": "", "value": 3.0},
    ]
    assert [one.symbols for one in two] == [frozenset({"AAPL", "IBM"}), frozenset({"IBM"})]
    assert Wanted(frozenset({"IBM"}), 57.41, share=0.005).is_in(said[1] | {"value": 57.35})
    assert not Wanted(frozenset({"IBM"}), 57.41).is_in(said[1] | {"value": 57.35})
    assert answers({"figures": said}, two)
    assert not answers({"figures": said[:1]}, two)
    other = {"symbol": "MSFT", "metric": "close", "period": "", "value": 1.0}
    assert not answers({"figures": [*said, other]}, two)
    assert answers({"figures": [*said, other]}, two, ("MSFT",))
    assert not answers({"figures": said}, wanted(Question("?", "blind", figures=()), TABLE))
    unknown = Question("?", "blind", (IBM, ("total_return", {"symbol": "NFLX"})))
    assert wanted(unknown, TABLE) == []


@pytest.mark.parametrize(
    ("report", "good"),
    [
        ({"answer": "IBM lost -5.5 % from 2005-01 to 2009-12.", "figures": []}, True),
        ({"answer": "None.", "figures": [{"symbol": "IBM", "value": -5.50}]}, True),
        ({"answer": "IBM lost 5.5 %.", "figures": []}, False),
        ({"answer": "IBM lost -5.5 % from 2005-02.", "figures": []}, False),
        ({"answer": "Nothing.", "figures": [{"symbol": "IBM", "value": 7}]}, False),
    ],
)
def test_checks_every_number(report: dict[str, object], good: bool):
    """A number or a month that no result holds is not grounded."""
    assert grounded(report, RESULTS) is good


def test_reads_numbers_in_one_form():
    """Trailing zeros and exponents make no difference; months stay together."""
    assert numbers("2005-01: 5.50, -3 and 1e2") == {"2005-01", "5.5", "-3.0", "100.0"}


def verdict(origin: str, **how: Any) -> Verdict:
    """A verdict of which only what is counted matters."""
    counted: dict[str, Any] = {"answerable": True, "right": True, "refused": False, "said_so": None}
    counted |= {"grounded": True, "bound": True, "valid": True} | how
    return Verdict("?", origin, called=[], report=None, error="", seconds=0.5, **counted)


def test_shares_by_origin():
    """Each origin in its row and all in the last; an origin that was not asked has none."""
    lacks = {"answerable": False, "right": None, "refused": None}
    verdicts = [
        verdict("blind"),
        verdict("blind", bound=False, right=False),
        verdict("blind", right=False, refused=True, grounded=None, bound=None),
        verdict("blind", **lacks, said_so=True, grounded=None, bound=None),
        verdict("handwritten"),
    ]
    found = figures(verdicts)
    assert [(name, row["questions"], row["answerable"]) for name, row in found.items()] == [
        ("blind", 4, 3),
        ("handwritten", 1, 1),
        ("all", 5, 4),
    ]
    blind = found["blind"]
    assert (blind["right_percent"], blind["refused_percent"]) == (33.3, 33.3)
    assert (blind["said_so_percent"], blind["bound_percent"]) == (100.0, 50.0)
    assert found["handwritten"]["said_so_percent"] is None
    assert found["all"]["right_percent"] == 50.0
    lines = table(found).splitlines()
    assert lines[0].split()[:4] == ["wording", "questions", "answerable", "right"]
    cells = ["blind", "4", "3", "33.3%", "33.3%", "100.0%", "100.0%", "50.0%", "100.0%", "0.5"]
    assert lines[1].split() == cells
    assert lines[2].split()[5] == "-"
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("said", "expected", "counts"),
    [
        (told(IBM), (IBM,), (True, False, None, True)),
        (told(AAPL), (IBM,), (False, False, None, False)),
        ({"reason": "past prices do not tell the future"}, (IBM,), (False, True, None, None)),
        ({"reason": "past prices do not tell the future"}, (), (None, None, True, None)),
        (told(IBM), (), (None, None, False, True)),
        (None, (IBM,), (False, False, None, None)),
        (None, (), (None, None, False, None)),
    ],
)
def test_judges_one(
    said: dict[str, object] | None,
    expected: tuple[Call, ...],
    counts: tuple[bool | None, ...],
):
    """A refusal is right where there is no answer, and nothing else is."""
    question = Question("?", "blind", expected)
    heard = Heard([IBM], [market.total_return(TABLE, "IBM", "2005-01", "2009-12")])
    found = judged(question, wanted(question, TABLE), heard, said, "", 0.1)
    assert (found.right, found.refused, found.said_so, found.bound) == counts
    assert found.valid is (said is not None)
