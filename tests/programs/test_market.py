"""The finance program's table and figures, on the shipped data and on broken files."""

from datetime import date
from pathlib import Path

import market
import pytest

STOCKS = Path(market.__file__).parent / "data" / "stocks.csv"
TABLE = market.load(STOCKS)
A_YEAR = (210.73 / 32.2) ** (365.25 / (date(2009, 12, 1) - date(2004, 12, 1)).days) - 1


def write(folder: Path, text: str) -> Path:
    """A CSV file with this text."""
    file = folder / "prices.csv"
    file.write_text(text)
    return file


def test_reads_the_shipped_data():
    """Five companies, 560 rows."""
    assert TABLE.symbols == "MSFT, AMZN, IBM, GOOG, AAPL"
    assert sum(len(closes) for closes in TABLE.closes.values()) == 560


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        pytest.param(
            market.prices(TABLE, "AAPL", "2005-01", "2009-12"),
            {"first": 38.45, "last": 210.73, "low": 36.06, "high": 210.73},
            id="prices",
        ),
        pytest.param(
            market.total_return(TABLE, "AAPL", "2005-01", "2009-12"),
            {"total_return_percent": round((210.73 / 32.2 - 1) * 100, 2)},
            id="total return",
        ),
        pytest.param(
            market.annual_return(TABLE, "aapl", "2005-01", "2009-12"),
            {"start": "2005-01", "annual_return_percent": round(A_YEAR * 100, 2)},
            id="annual return, symbol in lower case",
        ),
        pytest.param(
            market.drawdown(TABLE, "AAPL", "2005-01", "2009-12"),
            {"max_drawdown_percent": 56.91},
            id="drawdown",
        ),
        pytest.param(
            market.compare(TABLE, "total_return", ["AAPL", "IBM"], "2005-01", "2009-12"),
            {"highest": "AAPL", "lowest": "IBM", "gap": 511.48},
            id="compare",
        ),
        pytest.param(
            market.correlation(TABLE, "AAPL", "GOOG"),
            {"start": "2004-08", "end": "2010-03"},
            id="correlation over the days that both have",
        ),
        pytest.param(
            market.prices(TABLE, "GOOG"), {"start": "2004-08", "end": "2010-03"}, id="open range"
        ),
    ],
)
def test_computes(fact: market.Fact, expected: market.Fact):
    """Known values of the shipped data."""
    assert expected.items() <= fact.items()


@pytest.mark.parametrize(
    ("start", "end", "first"),
    [
        pytest.param("2005-02", "2005-02", "2005-01", id="one month"),
        pytest.param("2004-08", "2005-02", "2004-08", id="its first close, as none is earlier"),
        pytest.param("1999-01", "2005-02", "2004-08", id="a range that begins before the data"),
    ],
)
def test_a_return_runs_from_the_last_close_before_the_range(start: str, end: str, first: str):
    """The price moved into the first month, too."""
    price = {close.month: close.price for close in TABLE.closes["GOOG"]}
    fact = market.total_return(TABLE, "GOOG", start, end)
    assert fact["total_return_percent"] == round((price["2005-02"] / price[first] - 1) * 100, 2)
    assert (fact["start"], fact["end"]) == (max(start, "2004-08"), end)


def test_a_year_of_days_runs_from_the_old_year(tmp_path: Path):
    """The close of 31 December is the base, also in a table of days."""
    rows = "x,2000-12-28,7\nx,2000-12-29,10\nx,2001-01-02,8\nx,2001-12-31,12\nx,2002-01-02,99\n"
    table = market.load(write(tmp_path, "symbol,date,price\n" + rows))
    assert market.total_return(table, "x", "2001-01", "2001-12")["total_return_percent"] == 20
    assert market.drawdown(table, "x", "2001-01", "2001-12")["max_drawdown_percent"] == 20
    assert market.prices(table, "x", "2001-01", "2001-12")["first"] == 8


def test_a_constant_price_does_not_vary(tmp_path: Path):
    """A flat line has no return, volatility or drawdown; ISO dates and more columns are fine."""
    rows = "".join(f"x,2001-0{month}-01,5,9\n" for month in range(1, 7))
    table = market.load(write(tmp_path, "symbol,date,price,volume\n" + rows))
    assert market.volatility(table, "x")["volatility_percent"] == 0
    assert market.total_return(table, "x")["total_return_percent"] == 0
    assert market.drawdown(table, "x")["max_drawdown_percent"] == 0


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
    with pytest.raises(market.TableError, match=complaint):
        market.load(write(tmp_path, text))


def test_says_that_a_file_is_missing(tmp_path: Path):
    """The path and the expected columns are named."""
    with pytest.raises(market.TableError, match=r"cannot read .*nowhere.csv.*symbol"):
        market.load(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("symbol", "start", "end", "complaint"),
    [
        ("NVDA", None, None, "no symbol NVDA"),
        ("GOOG", "1999-01", "2003-12", "GOOG has data from 2004-08 to 2010-03 only"),
        ("GOOG", "2004-08", "2004-08", "GOOG has only 1 of 2 closes needed there"),
    ],
)
def test_says_what_it_lacks(symbol: str, start: str | None, end: str | None, complaint: str):
    """Unknown symbols and empty ranges."""
    with pytest.raises(market.TableError, match=complaint):
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
        assert market.parse_day(text) == day
        return
    with pytest.raises(ValueError, match="is no date"):
        market.parse_day(text)
