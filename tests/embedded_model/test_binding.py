"""Whether a value is said of the symbol it belongs to, however the sentence is built."""

import pytest
from binding import Result, bound
from corpus.finance import market

YEARS = "2005-01 to 2009-12"


def of(
    symbol: str, value: float, metric: str = "total return %", period: str = YEARS
) -> market.Figure:
    """A figure."""
    return market.Figure(symbol=symbol, metric=metric, period=period, value=value)


AAPL, IBM = of("AAPL", 448.06), of("IBM", 50.85)
COMPARED = [AAPL, IBM, of("AAPL & IBM", 397.21, "total return % gap")]
RESULTS: list[Result] = [[AAPL], [IBM], COMPARED]
SENTENCE = (
    "{0} had the higher total return from 2005-01 to 2009-12 with {1} %, {2} the lower with {3} %."
)
RIGHT, SWAPPED = ("AAPL", 448.06, "IBM", 50.85), ("AAPL", 50.85, "IBM", 448.06)


def report(answer: str, *figures: market.Figure) -> dict[str, object]:
    """A report as the program gives it."""
    return {"figures": [figure.model_dump() for figure in figures], "answer": answer}


@pytest.mark.parametrize("results", [RESULTS, [COMPARED]])
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
def test_comparison(results: list[Result], said: tuple[object, ...], good: bool):
    """Values swapped, a false claim and a symbol that nobody asked about are all found."""
    assert bound(report(SENTENCE.format(*said)), results) is good


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
    ("figure", "good"),
    [
        (AAPL, True),
        (COMPARED[2], True),
        (of("AAPL", 50.85), False),
        (of("IBM", 448.06), False),
        (of("AAPL", 448.06, "annual return %"), False),
        (of("AAPL", 448.06, period="2005-01 to 2008-12"), False),
        (of("AAPL & IBM", 448.06), False),
        (of("AAPL", 1.0), False),
    ],
)
def test_figures(figure: market.Figure, good: bool):
    """A figure is one that a tool computed: its symbol, its metric, its period, its value."""
    assert bound(report("See the figures.", IBM, figure), RESULTS) is good


PRICES = [
    of("IBM", value, f"{edge} close")
    for edge, value in (("first", 91.06), ("last", 76.73), ("lowest", 68.93), ("highest", 91.16))
]
LINKED = of("AAPL & IBM", 0.44, "correlation")
RISK = of("IBM", 21.5, "volatility %")
LATER = of("IBM", 9.0, period="2006-01 to 2006-12")


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        ("IBM went from 91.06 to 76.73 from 2005-01 to 2009-12, low 68.93, high 91.16.", True),
        ("IBM had a first close of 91.06 from 2005-01 to 2009-12.", True),
        ("IBM had a last close of 91.06 from 2005-01 to 2009-12.", False),
        ("IBM had a volatility of 21.5 % from 2005-01 to 2009-12.", True),
        ("IBM had a max drawdown of 21.5 % from 2005-01 to 2009-12.", False),
        ("IBM had a volatility of 50.85 % from 2005-01 to 2009-12.", False),
        ("IBM had a volatility of 21.5 %, a total return of 50.85 %.", True),
        ("IBM had a volatility of 21.5 %, for AAPL 448.06.", False),
        ("IBM stood at 91.06. AAPL rose, low 68.93.", False),
        ("The correlation of AAPL and IBM was 0.44 from 2005-01 to 2009-12.", True),
        ("The correlation of IBM and AAPL was 0.45.", False),
        ("The correlation of GOOG and IBM was 0.44.", False),
        ("IBM made 9 % from 2006-01 to 2006-12.", True),
        ("IBM made 50.85 % from 2006-01 to 2006-12.", False),
        ("IBM made 9 % from 2005-01 to 2009-12.", False),
        ("IBM made 9 % from 2006-01 to 2009-12.", False),
        ("AAPL made 448.06 % from 2006-01 to 2006-12.", False),
        ("Nothing to say.", True),
        ("No figure: no symbol NFLX.", True),
        ("GOOG has data from 2004-08 to 2010-03 only.", True),
        ("IBM has data from 2004-08 to 2010-03 only.", False),
    ],
)
def test_other_results(answer: str, good: bool):
    """Metrics, periods, errors; without a symbol a clause is about the last one."""
    errors = ["no symbol NFLX", "GOOG has data from 2004-08 to 2010-03 only"]
    results: list[Result] = [PRICES, [LINKED], [AAPL], [IBM], [LATER], [RISK], *errors]
    assert bound(report(answer), results) is good


def test_case_of_a_symbol_does_not_matter():
    """A table looks symbols up in any case."""
    results: list[Result] = [[of("aapl", 448.06)], [IBM]]
    assert bound(report("AAPL made 448.06 %, ibm 50.85 %."), results)
    assert not bound(report("aapl made 50.85 %, ibm 448.06 %."), results)


def test_symbols_hold_dots_dashes_and_digits():
    """A symbol is one word, whatever it is made of."""
    results: list[Result] = [[of("BRK.B", 4.0), of("0700.HK", 3.0), of("AA-1", 2.0)]]
    said = "{0} had the highest total return of {1} %. {2} had the lowest total return of {3} %."
    assert bound(report(said.format("BRK.B", 4.0, "AA-1", 2.0)), results)
    assert not bound(report(said.format("0700.HK", 4.0, "AA-1", 2.0)), results)
    assert not bound(report(said.format("BRK.B", 4.0, "AA-1", 3.0)), results)


def test_a_tie_claims_nothing():
    """With equal values neither symbol is the higher one."""
    tie: list[Result] = [[of("AAPL", 7.0), of("IBM", 7.0)]]
    assert bound(report("AAPL had the higher return."), tie)
    assert bound(report("IBM had the higher return with 7 %."), tie)
