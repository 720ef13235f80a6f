"""The held-out questions can be answered: every expected call runs on the real table."""

from pathlib import Path

import market
import pytest
from held_out.questions import ORIGINS, SYMBOLS, every

STOCKS = Path(market.__file__).parent / "data" / "stocks.csv"
LACKING = {"NFLX", "ORCL", "TSLA", "INTC"}


def symbols(arguments: dict[str, object]) -> set[str]:
    """The symbols that a call is about."""
    found: set[str] = set()
    for key in ("symbol", "first", "second", "symbols"):
        value = arguments.get(key, [])
        found.update(map(str, value) if isinstance(value, list) else [str(value)])
    return found


@pytest.mark.parametrize("origin", ORIGINS)
def test_expected_calls_run(origin: str):
    """Only a symbol that the table lacks is refused."""
    table = market.load(STOCKS)
    for question in [q for q in every() if q.origin == origin]:
        assert question.calls
        for name, arguments in question.calls:
            if symbols(arguments) & LACKING:
                with pytest.raises(market.TableError, match="no symbol"):
                    getattr(market, name)(table, **arguments)
            else:
                getattr(market, name)(table, **arguments)


@pytest.mark.parametrize("origin", ORIGINS)
def test_expected_symbols_are_named(origin: str):
    """The symbols of the calls are the symbols of the question, no more and no fewer."""
    for question in [q for q in every() if q.origin == origin]:
        called = {symbol for _, arguments in question.calls for symbol in symbols(arguments)}
        upper = question.text.upper()
        assert called == {s for s in (*SYMBOLS, *LACKING) if s in upper}, question.text
