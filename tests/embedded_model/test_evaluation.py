"""How the evaluation counts: order does not matter, every number must come from a result."""

import pytest
from evaluate import Verdict, figures, table
from judging import canonical, grounded, numbers

RESULTS = ['{"symbol":"IBM","start":"2005-01","end":"2009-12","total_return_percent":-5.5}']


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("f", {"symbol": "A", "end": None}), ("f", {"symbol": "A"}), True),
        (("f", {"a": "1", "b": "2"}), ("f", {"b": "2", "a": "1"}), True),
        (("f", {"symbols": ["A", "B"]}), ("f", {"symbols": ["B", "A"]}), True),
        (
            ("correlation", {"first": "A", "second": "B"}),
            ("correlation", {"first": "B", "second": "A"}),
            True,
        ),
        (("f", {"first": "A", "second": "B"}), ("f", {"first": "B", "second": "A"}), False),
        (("f", {"symbol": "a"}), ("f", {"symbol": "A"}), True),
        (("f", {"symbols": ["a", "B"]}), ("f", {"symbols": ["b", "A"]}), True),
        (("f", {"symbol": "A"}), ("g", {"symbol": "A"}), False),
        (("f", {"end": "2005-01"}), ("f", {"start": "2005-01"}), False),
    ],
)
def test_compares_calls(one, other, same: bool):
    """Only what a call means counts."""
    assert (canonical(one) == canonical(other)) is same


@pytest.mark.parametrize(
    ("report", "good"),
    [
        ({"answer": "IBM lost -5.5 % from 2005-01 to 2009-12.", "figures": []}, True),
        ({"answer": "None.", "figures": [{"name": "IBM", "value": -5.50}]}, True),
        ({"answer": "IBM lost 5.5 %.", "figures": []}, False),
        ({"answer": "IBM lost -5.5 % from 2005-02.", "figures": []}, False),
        ({"answer": "Nothing.", "figures": [{"name": "IBM", "value": 7}]}, False),
    ],
)
def test_checks_every_number(report: dict[str, object], good: bool):
    """A number or a month that no result holds is not grounded."""
    assert grounded(report, RESULTS) is good


def test_reads_numbers_in_one_form():
    """Trailing zeros and exponents make no difference; months stay together."""
    assert numbers("2005-01: 5.50, -3 and 1e2") == {"2005-01", "5.5", "-3.0", "100.0"}


def verdict(origin: str, **how: bool) -> Verdict:
    """A verdict of which only what is counted matters."""
    counted = {"right": True, "grounded": True, "bound": True, "valid": True} | how
    return Verdict("?", origin, [], [], report=None, error="", seconds=0.5, **counted)


def test_shares_by_origin():
    """Each origin in its row and all in the last; an origin that was not asked has none."""
    verdicts = [verdict("blind"), verdict("blind", bound=False), verdict("handwritten")]
    found = figures(verdicts)
    assert [(name, row["questions"]) for name, row in found.items()] == [
        ("handwritten", 1),
        ("blind", 2),
        ("all", 3),
    ]
    assert found["blind"]["bound_percent"] == 50.0
    assert found["all"]["bound_percent"] == 66.7
    assert found["blind"]["grounded_percent"] == 100.0
    lines = table(found).splitlines()
    assert lines[0].split()[:6] == ["wording", "questions", "right", "grounded", "bound", "valid"]
    assert lines[2].split() == ["blind", "2", "100.0%", "100.0%", "50.0%", "100.0%", "0.5"]
    assert len({len(line) for line in lines}) == 1
