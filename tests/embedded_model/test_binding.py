"""Whether a value is said of the symbol it belongs to, however the sentence is built."""

import pytest
from binding import bound

SPAN = {"start": "2005-01", "end": "2009-12"}
AAPL = {"symbol": "AAPL", **SPAN, "total_return_percent": 448.06}
IBM = {"symbol": "IBM", **SPAN, "total_return_percent": 50.85}
COMPARED = {"metric": "total_return", "highest": "AAPL", "lowest": "IBM", "gap": 397.21}
WITH_VALUES = COMPARED | {"highest_value": 448.06, "lowest_value": 50.85}
RESULTS = [AAPL, IBM, COMPARED]
SENTENCE = (
    "{0} had the higher total return from 2005-01 to 2009-12 with {1} %, {2} the lower with {3} %."
)
RIGHT, SWAPPED = ("AAPL", 448.06, "IBM", 50.85), ("AAPL", 50.85, "IBM", 448.06)


def report(answer: str, *figures: tuple[str, float]) -> dict[str, object]:
    """A report as the program gives it."""
    return {"figures": [{"name": n, "value": v} for n, v in figures], "answer": answer}


@pytest.mark.parametrize("compared", [COMPARED, WITH_VALUES])
@pytest.mark.parametrize(
    ("said", "good"),
    [
        (RIGHT, True),
        (SWAPPED, False),
        (("IBM", 50.85, "AAPL", 448.06), False),  # bound, but IBM had the lower one
        (("AAPL", 448.06, "AAPL", 50.85), False),
        (("AAPL", 448.06, "IBM", 51.85), False),
        (("UAPL", 448.06, "IBM", 50.85), False),
    ],
)
def test_comparison(compared: dict[str, object], said: tuple[object, ...], good: bool):
    """Values swapped, a false claim and a symbol that nobody asked about are all found."""
    assert bound(report(SENTENCE.format(*said)), [AAPL, IBM, compared]) is good


@pytest.mark.parametrize(
    "pattern",
    [
        "{0} returned {1} % and {2} {3} %.",
        "{1} % for {0}, {3} % for {2}.",
        "{1} % for {0} and {3} % for {2}",
        "{0} ({1} %) against {2} ({3} %).",
        "{0} and {2} returned {1} % and {3} % in all.",
        "Of the two, {0} made {1} %. {2} made {3} %.",
        "{0} came first: {1} %; {2} made {3} %",
        "From 2005-01 to 2009-12, {0}'s return was {1} %, {2}'s was {3} %.",
    ],
)
def test_wording_does_not_matter(pattern: str):
    """Each pattern holds with the right values and fails with swapped ones."""
    assert bound(report(pattern.format(*RIGHT)), RESULTS)
    assert not bound(report(pattern.format(*SWAPPED)), RESULTS)


@pytest.mark.parametrize(
    ("figures", "good"),
    [
        ((("AAPL total return percent", 448.06), ("IBM total return percent", 50.85)), True),
        ((("AAPL total return percent", 50.85),), False),
        ((("IBM total return percent", 448.06), ("AAPL total return percent", 50.85)), False),
        ((("gap", 397.21),), True),
        ((("AAPL IBM gap", 397.21),), True),
        ((("AAPL over IBM", 396.0),), False),
        ((("gap", 1.0),), False),
    ],
)
def test_figures(figures: tuple[tuple[str, float], ...], good: bool):
    """A figure's name says whose it is; without a symbol any result may hold it."""
    assert bound(report("See the figures.", *figures), RESULTS) is good


PRICES = {"symbol": "IBM", **SPAN, "first": 91.06, "last": 76.73, "low": 68.93, "high": 91.16}
LINKED = {"first": "AAPL", "second": "IBM", **SPAN, "correlation": 0.44}
LATER = {"symbol": "IBM", "start": "2006-01", "end": "2006-12", "total_return_percent": 9.0}


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        ("IBM went from 91.06 to 76.73 from 2005-01 to 2009-12, low 68.93, high 91.16.", True),
        ("IBM stood at 91.06. AAPL rose, low 68.93.", False),
        ("The correlation of AAPL and IBM was 0.44 from 2005-01 to 2009-12.", True),
        ("The correlation of IBM and AAPL was 0.45.", False),
        ("The correlation of GOOG and IBM was 0.44.", False),
        ("IBM made 9 % from 2006-01 to 2006-12.", True),
        ("IBM made 50.85 % from 2006-01 to 2006-12.", False),
        ("IBM made 9 % from 2005-01 to 2009-12.", False),
        ("AAPL made 448.06 % from 2006-01 to 2006-12.", False),
        ("Nothing to say.", True),
        ("No figure: no symbol NFLX.", True),
        ("GOOG has data from 2004-08 to 2010-03 only.", True),
        ("IBM has data from 2004-08 to 2010-03 only.", False),
    ],
)
def test_other_results(answer: str, good: bool):
    """Prices, correlations, periods, errors; without a symbol a clause is about the last one."""
    errors = ["no symbol NFLX", "GOOG has data from 2004-08 to 2010-03 only"]
    assert bound(report(answer), [PRICES, LINKED, AAPL, IBM, LATER, *errors]) is good


def test_case_of_a_symbol_does_not_matter():
    """A table looks symbols up in any case."""
    results = [AAPL | {"symbol": "aapl"}, IBM]
    assert bound(report("AAPL made 448.06 %, ibm 50.85 %."), results)
    assert not bound(report("aapl made 50.85 %, ibm 448.06 %."), results)


def test_a_tie_claims_nothing():
    """With equal values neither symbol is the higher one."""
    tie = {"metric": "total_return", "highest": "IBM", "lowest": "IBM", "gap": 0.0}
    values = {"highest_value": 7.0, "lowest_value": 7.0}
    assert bound(report("AAPL had the higher return."), [AAPL, IBM, tie])
    assert bound(report("IBM had the higher return with 7 %."), [tie | values])
