"""The held-out questions can be answered: every expected call runs on the real table."""

import re
from pathlib import Path

import market
import pytest
from closes import Table, TableError, load
from held_out.questions import ORIGINS, SYMBOLS, Question, every, fresh, limits, solved, unseen
from held_out.tables import TABLES

STOCKS = Path(market.__file__).parent / "data" / "stocks.csv"
LACKING = {"NFLX", "ORCL", "TSLA", "INTC"}


def symbols(arguments: dict[str, object]) -> set[str]:
    """The symbols that a call is about."""
    found: set[str] = set()
    for key in ("symbol", "first", "second", "symbols"):
        value = arguments.get(key, [])
        found.update(map(str, value) if isinstance(value, list) else [str(value)])
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The tables that questions are about, by name."""
    folder = tmp_path_factory.mktemp("tables")
    return {"": load(STOCKS)} | {name: load(one.write(folder)) for name, one in TABLES.items()}


WITH_FIGURES = ("fresh", "unseen", "limits", "solved")
WITH_CALLS = [origin for origin in ORIGINS if origin not in WITH_FIGURES]


@pytest.mark.parametrize("origin", WITH_CALLS)
def test_expected_calls_run(origin: str, tables: dict[str, Table]):
    """Only a symbol that the table lacks is refused."""
    for question in [q for q in every() if q.origin == origin]:
        assert question.calls
        for name, arguments in question.calls:
            if symbols(arguments) & LACKING:
                with pytest.raises(TableError, match="no symbol"):
                    getattr(market, name)(tables[question.data], **arguments)
            else:
                getattr(market, name)(tables[question.data], **arguments)


@pytest.mark.parametrize("origin", WITH_CALLS)
def test_expected_symbols_are_named(origin: str, tables: dict[str, Table]):
    """The symbols of the calls are the symbols of the question, no more and no fewer."""
    for question in [q for q in every() if q.origin == origin]:
        called = {symbol for _, arguments in question.calls for symbol in symbols(arguments)}
        upper = question.text.upper()
        known = (*SYMBOLS, *LACKING) if not question.data else tables[question.data].symbols
        assert called == {
            s for s in known if re.search(rf"(?<![A-Z0-9.-]){s}(?![A-Z0-9-]|[.][A-Z])", upper)
        }, question.text


def test_tables_are_of_another_kind(tables: dict[str, Table]):
    """20 symbols each, with dots, dashes and digits; the same ones each time."""
    for name, table in tables.items():
        if name:
            assert len(table.symbols) == 20
            assert any("." in symbol for symbol in table.symbols)
            assert any("-" in symbol for symbol in table.symbols)
            assert any(symbol[0].isdigit() for symbol in table.symbols)
            assert table.symbols == TABLES[name].symbols()
    assert len(tables["days of the eighties"].closes) == 20
    lengths = {name: len(next(iter(table.closes.values()))) for name, table in tables.items()}
    assert lengths["days of the eighties"] > 1.5 * lengths["weeks of the tens"] > 400


@pytest.mark.parametrize(
    ("questions", "counts"),
    [
        pytest.param(solved(), (187, 39), id="solved"),
        pytest.param(limits(), (120, 70), id="limits"),
        pytest.param(unseen(), (180, 30), id="unseen"),
        pytest.param(fresh(), (150, 25), id="fresh"),
    ],
)
def test_questions_have_figures_or_none(questions: list[Question], counts: tuple[int, int]):
    """Some cannot be answered; each figure of the rest is of a symbol of the shipped table."""
    lacking = [question for question in questions if question.figures == ()]
    assert (len(questions), len(lacking)) == counts
    of = {
        symbol for question in questions for named, _ in question.figures or () for symbol in named
    }
    assert len(of - set(SYMBOLS)) == 0
