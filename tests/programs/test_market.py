"""The finance program's table and figures, on the shipped data and on broken files."""

from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import market
import pytest
from closes import Table, TableError, load, parse_day
from market import Figure

STOCKS = Path(market.__file__).parent / "data" / "stocks.csv"
TABLE = load(STOCKS)
YEARS = "2005-01 to 2009-12"
A_YEAR = (210.73 / 32.2) ** (365.25 / (date(2009, 12, 1) - date(2004, 12, 1)).days) - 1


def write(folder: Path, text: str) -> Path:
    """A CSV file with this text."""
    file = folder / "prices.csv"
    file.write_text(text)
    return file


def values(figures: list[Figure]) -> dict[str, float]:
    """The values by metric."""
    return {figure.metric: figure.value for figure in figures}


def test_reads_the_shipped_data():
    """Five companies, 560 rows, each with the name of its company."""
    assert TABLE.symbols == ("MSFT", "AMZN", "IBM", "GOOG", "AAPL")
    assert sum(len(closes) for closes in TABLE.closes.values()) == 560
    assert TABLE.shown.splitlines() == [
        "MSFT, AMZN, IBM, GOOG, AAPL",
        "Names: Microsoft = MSFT, Amazon = AMZN, International Business Machines = IBM, "
        "Google = GOOG, Apple = AAPL",
        "Data: 2000-01 to 2010-03",
    ]


def test_a_name_is_as_good_as_its_symbol():
    """Calls may name a company as the data does; the figure is of its symbol."""
    assert TABLE.identifiers == (*TABLE.symbols, *TABLE.names.values())
    named = market.compare(TABLE, "drawdown", ["Apple", "International Business Machines"])
    assert named == market.compare(TABLE, "drawdown", ["AAPL", "IBM"])
    with pytest.raises(TableError, match="nothing to compare AAPL with"):
        market.correlation(TABLE, "Apple", "AAPL")


def test_a_name_of_two_symbols_is_none_of_them():
    """Nor is one that is another's symbol."""
    symbols = ("GOOG", "GOOGL", "IBM", "I", "MMM")
    names = {"GOOG": "Alphabet", "GOOGL": "alphabet", "I": "Ibm", "IBM": "Big Blue"}
    table = Table(dict.fromkeys(symbols, TABLE.closes["IBM"]), names)
    assert table.identifiers == (*symbols, "Big Blue")


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        pytest.param(
            market.prices(TABLE, "AAPL", "2005-01", "2009-12"),
            {
                "first close": 38.45,
                "last close": 210.73,
                "lowest close": 36.06,
                "highest close": 210.73,
                "average close": 108.49,
            },
            id="prices",
        ),
        pytest.param(
            market.prices(TABLE, "AAPL", "2009-12", "2009-12"),
            {"close": 210.73},
            id="price of one month",
        ),
        pytest.param(
            market.total_return(TABLE, "AAPL", "2005-01", "2009-12"),
            {"total return %": round((210.73 / 32.2 - 1) * 100, 2)},
            id="total return",
        ),
        pytest.param(
            market.annual_return(TABLE, "aapl", "2005-01", "2009-12"),
            {"annual return %": round(A_YEAR * 100, 2)},
            id="annual return, symbol in lower case",
        ),
        pytest.param(
            market.drawdown(TABLE, "Apple", "2005-01", "2009-12"),
            {"max drawdown %": 56.91},
            id="drawdown, by the name of the company",
        ),
    ],
)
def test_computes(figures: list[Figure], expected: dict[str, float]):
    """Known values of the shipped data, each said of its symbol and its months."""
    assert values(figures) == expected
    assert {figure.symbol for figure in figures} == {"AAPL"}
    ranges = {figure.period for figure in figures if "close" not in figure.metric}
    assert len(ranges) <= 1


def test_compares_two():
    """Both values, the higher first, and by how much."""
    high, low, gap = market.compare(TABLE, "total_return", ["ibm", "AAPL"], "2005-01", "2009-12")
    assert high == market.total_return(TABLE, "AAPL", "2005-01", "2009-12")[0]
    assert low == market.total_return(TABLE, "IBM", "2005-01", "2009-12")[0]
    assert gap == Figure(
        symbol="AAPL & IBM", metric="total return % gap", period=YEARS, value=511.48
    )


def test_ranks_all():
    """Without symbols, all whose data hold the range are ranked, best first."""
    ranked = market.compare(TABLE, "volatility", start="2005-01", end="2009-12")
    assert {figure.symbol for figure in ranked} == set(TABLE.symbols)
    assert [f.value for f in ranked] == sorted((f.value for f in ranked), reverse=True)
    early = market.compare(TABLE, "volatility", start="2001-01", end="2003-12")
    assert {figure.symbol for figure in early} == set(TABLE.symbols) - {"GOOG"}


def test_compares_over_the_months_that_all_have():
    """An open end is that of the youngest; a range that one of them lacks is refused."""
    figures = market.compare(TABLE, "total_return", ["GOOG", "IBM"])
    assert {figure.period for figure in figures} == {"2004-09 to 2010-03"}
    with pytest.raises(TableError, match="GOOG has data from 2004-08"):
        market.compare(TABLE, "total_return", ["GOOG", "IBM"], "2001-01")


def test_shows_the_head_and_the_end_of_a_long_ranking(tmp_path: Path):
    """Of 20 symbols the first four and the last."""
    rows = "".join(f"s{n},2001-01-01,10\ns{n},2001-02-01,{10 + n}\n" for n in range(20))
    table = load(write(tmp_path, "symbol,date,price\n" + rows))
    ranked = market.compare(table, "total_return")
    assert [figure.symbol for figure in ranked] == ["s19", "s18", "s17", "s16", "s0"]


def test_correlates_over_the_days_that_both_have():
    """The pair is the symbol of the figure."""
    (figure,) = market.correlation(TABLE, "aapl", "GOOG")
    assert (figure.symbol, figure.metric) == ("AAPL & GOOG", "correlation")
    assert figure.period == "2004-08 to 2010-03"


@pytest.mark.parametrize(
    ("span", "period"),
    [
        ({"months": 12}, "2009-04 to 2010-03"),
        ({"months": 12, "start": "2005-11"}, "2005-11 to 2006-10"),
        ({"months": 24, "end": "2005-01"}, "2003-02 to 2005-01"),
        ({"months": 5, "start": "2005-01", "end": "2005-12"}, "2005-01 to 2005-12"),
        ({}, "2000-01 to 2010-03"),
    ],
)
def test_counts_months(span: dict[str, Any], period: str):
    """From a start, back from an end, or back from the last month of the table."""
    assert market.total_return(TABLE, "IBM", **span)[0].period == period


def test_says_what_closes_do_not_tell():
    """Each reason has a text of its own."""
    with pytest.raises(TableError, match="past prices do not tell the future"):
        market.unanswerable(TABLE, "future")
    assert len(set(market.LACKS.values())) == 6


def test_open_range_is_that_of_the_symbol():
    """GOOG begins later than the rest."""
    assert market.total_return(TABLE, "GOOG")[0].period == "2004-08 to 2010-03"


def test_a_close_names_its_month():
    """So does the best or the worst month; an average is of the whole range."""
    found = market.prices(TABLE, "AAPL", "2005-01", "2009-12")
    months = {figure.metric: figure.period for figure in found}
    price = {close.month: close.price for close in TABLE.closes["AAPL"]}
    assert (months["first close"], months["last close"]) == ("2005-01", "2009-12")
    assert price[months["lowest close"]] == min(p for m, p in price.items() if "2005" <= m < "2010")
    assert price[months["highest close"]] == max(
        p for m, p in price.items() if "2005" <= m < "2010"
    )
    assert months["average close"] == "2005-01 to 2009-12"


def test_single_months():
    """The first month of a year moves from the old year's last close; each month counts once."""
    price = {close.month: close.price for close in TABLE.closes["IBM"]}
    months = ["2001-12", *(f"2002-{month:02}" for month in range(1, 13))]
    moves = {b: (price[b] / price[a] - 1) * 100 for a, b in pairwise(months)}
    best, worst = max(moves, key=moves.__getitem__), min(moves, key=moves.__getitem__)
    assert [
        (f.metric, f.period, f.value)
        for f in market.monthly_returns(TABLE, "IBM", "2002-01", "2002-12")
    ] == [
        ("best month %", best, round(moves[best], 2)),
        ("worst month %", worst, round(moves[worst], 2)),
        ("months up", "2002-01 to 2002-12", sum(move > 0 for move in moves.values())),
        ("months down", "2002-01 to 2002-12", sum(move < 0 for move in moves.values())),
    ]


def test_single_months_of_a_table_of_days(tmp_path: Path):
    """A month runs from the last close before it to its last close."""
    days = ("2000-12-28", "2000-12-29", "2001-01-02", "2001-01-31", "2001-02-01", "2001-02-28")
    rows = [f"x,{day},{price}" for day, price in zip(days, (11, 10, 8, 12, 20, 9), strict=True)]
    table = load(write(tmp_path, "\n".join(["symbol,date,price", *rows])))
    best, worst, up, down = market.monthly_returns(table, "x", "2001-01", "2001-02")
    assert (best.period, best.value, worst.period, worst.value) == ("2001-01", 20, "2001-02", -25)
    assert (up.value, down.value) == (1, 1)
    with pytest.raises(TableError, match="no month there with a close before it"):
        market.monthly_returns(table, "x", "2000-12", "2000-12")


@pytest.mark.parametrize(
    ("start", "end", "first"),
    [
        pytest.param("2005-02", "2005-02", "2005-01", id="one month"),
        pytest.param("2004-08", "2005-02", "2004-08", id="its first close, as none is earlier"),
        pytest.param("2004-01", "2005-02", "2004-08", id="a year that begins before the data"),
    ],
)
def test_a_return_runs_from_the_last_close_before_the_range(start: str, end: str, first: str):
    """The price moved into the first month, too."""
    price = {close.month: close.price for close in TABLE.closes["GOOG"]}
    (figure,) = market.total_return(TABLE, "GOOG", start, end)
    assert figure.value == round((price["2005-02"] / price[first] - 1) * 100, 2)
    assert figure.period == f"{max(start, '2004-08')} to {end}"


def test_a_year_of_days_runs_from_the_old_year(tmp_path: Path):
    """The close of 31 December is the base, also in a table of days."""
    rows = "x,2000-12-28,7\nx,2000-12-29,10\nx,2001-01-02,8\nx,2001-12-31,12\nx,2002-01-02,99\n"
    table = load(write(tmp_path, "symbol,date,price\n" + rows))
    assert market.total_return(table, "x", "2001-01", "2001-12")[0].value == 20
    assert market.drawdown(table, "x", "2001-01", "2001-12")[0].value == 20
    assert market.prices(table, "x", "2001-01", "2001-12")[0].value == 8


def test_a_constant_price_does_not_vary(tmp_path: Path):
    """A flat line has no return, volatility or drawdown; ISO dates and more columns are fine."""
    rows = "".join(f"x,2001-0{month}-01,5,9\n" for month in range(1, 7))
    table = load(write(tmp_path, "symbol,date,price,volume\n" + rows))
    assert market.volatility(table, "x")[0].value == 0
    assert market.total_return(table, "x")[0].value == 0
    assert market.drawdown(table, "x")[0].value == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no rows"),
        ("symbol,date\na,2001-01-01\n", "line 1: no column price; found symbol, date"),
        ("symbol,date,price\na,2001-01-01,5\na,soon,5\n", "line 3: 'soon' is no date"),
        ("symbol,date,price\na,2001-01-01,-5\n", "line 2: '-5' is no price above zero"),
        ("symbol,date,price\na,2001-01-01\n", "line 2: "),
    ],
)
def test_says_what_is_wrong_with_a_file(tmp_path: Path, text: str, complaint: str):
    """What, where, and what to do."""
    with pytest.raises(TableError, match=complaint):
        load(write(tmp_path, text))


def test_says_that_a_file_is_missing(tmp_path: Path):
    """The path and the expected columns are named."""
    with pytest.raises(TableError, match=r"cannot read .*nowhere.csv.*symbol"):
        load(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("symbol", "start", "end", "complaint"),
    [
        ("NVDA", None, None, "no symbol NVDA"),
        ("GOOG", "1999-01", "2003-12", "GOOG has data from 2004-08 to 2010-03 only"),
        ("GOOG", "1999-01", "2005-02", "GOOG has data from 2004-08 to 2010-03 only"),
        ("IBM", "2008-01", "2011-12", "IBM has data from 2000-01 to 2010-03 only"),
        ("GOOG", "2004-08", "2004-08", "GOOG has only 1 of 2 closes needed there"),
    ],
)
def test_says_what_it_lacks(symbol: str, start: str | None, end: str | None, complaint: str):
    """Unknown symbols and empty ranges."""
    with pytest.raises(TableError, match=complaint):
        market.total_return(TABLE, symbol, start, end)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2005-01-31", date(2005, 1, 31)),
        ("2005-1-3", date(2005, 1, 3)),
        ("2005/1/31", date(2005, 1, 31)),
        (" 2005-02 ", date(2005, 2, 1)),
        ("Feb 28 2005", date(2005, 2, 28)),
        ("september  9 1999", date(1999, 9, 9)),
        ("2005/02", None),
        ("2005-02-29", None),
        ("Febr 1 2005", None),
        ("2005-13", None),
    ],
)
def test_days_are_read_however_tables_write_them(text: str, day: date | None) -> None:
    if day is not None:
        assert parse_day(text) == day
        return
    with pytest.raises(ValueError, match="is no date"):
        parse_day(text)


def test_names_come_from_a_column(tmp_path: Path):
    """A table may name some of its companies, none, or a company as another's symbol."""
    rows = "A,2001-01-01,5,Zorvax\nA,2001-02-01,6,Zorvax\nB.1,2001-01-01,5,\nB.1,2001-02-01,7,\n"
    table = load(write(tmp_path, "symbol,date,price,name\n" + rows))
    assert table.shown == "A, B.1\nNames: Zorvax = A\nData: 2001-01 to 2001-02"
    assert market.total_return(table, "zorvax")[0].symbol == "A"
    assert market.total_return(table, "b.1")[0].value == 40
    assert Table({"A": table.closes["A"]}, {"A": "B"}).symbol("a") == "A"


def test_compares_no_symbol_with_itself():
    """Two symbols that are one cannot be compared."""
    with pytest.raises(TableError, match="nothing to compare IBM with"):
        market.compare(TABLE, "volatility", ["IBM", "ibm"])
    with pytest.raises(TableError, match="nothing to compare IBM with"):
        market.correlation(TABLE, "IBM", "IBM")
