"""The finance program on the embedded model: records for what closes answer, else a reason."""

import subprocess
import sys

import anyio
import finance
import market
import pytest
from closes import load

from agentrt import chat, program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.embedded import path

TABLE = load(finance.STOCKS)
YEARS = ("2005-01", "2009-12")
RETURNS = "Which returned more from 2005 to 2009, AAPL or IBM?"
RISK = "How volatile was MSFT in 2008?"
DIVIDEND = "What dividend did IBM pay in 2005?"
EARLY = "What was the volatility of MSFT in 1990?"
DECLARES = """
import finance
from agentrt.structured import shape_of
from agentrt.structured.json_schema.declaration import DECLARATIONS

class Pending:
    def held_options(self):
        raise AssertionError("declared with its options")

assert shape_of(finance.held([Pending()])).spec.holes
print(DECLARATIONS.starts)
"""

Said = dict[str, finance.Report | finance.Unanswerable]


@pytest.fixture(scope="module")
def said() -> Said:
    """What it says to each question."""

    async def run() -> Said:
        async with open_runtime(place="thread") as runtime:
            asked = (RETURNS, RISK, DIVIDEND, EARLY)
            return {text: await runtime.run(finance.finance, text) for text in asked}

    return anyio.run(run)


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "figures"),
    [
        (RETURNS, market.compare(TABLE, "total_return", ["AAPL", "IBM"], *YEARS)),
        (RISK, market.volatility(TABLE, "MSFT", "2008-01", "2008-12")),
    ],
)
def test_reports_records(said: Said, question: str, figures: list[market.Figure]) -> None:
    """The very figures that the tools computed; the words repeat no number."""
    report = said[question]
    assert isinstance(report, finance.Report)
    assert report.figures == figures
    assert not any(letter.isdigit() for letter in report.answer)


@pytest.mark.model
@pytest.mark.parametrize("question", [DIVIDEND, EARLY])
def test_says_that_there_is_no_answer(said: Said, question: str) -> None:
    """Another figure, another time: a reason and no number."""
    assert isinstance(said[question], finance.Unanswerable)


def test_a_report_is_declared_without_a_process() -> None:
    """A process takes longer to start than the whole answer, and each command starts its own."""
    done = subprocess.run(
        [sys.executable, "-c", DECLARES],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=finance.STOCKS.parents[1],
    )
    assert done.stdout == "0\n"


@pytest.mark.model
def test_no_record_is_said_twice() -> None:
    """Not even by a model that says anything: random weights, and records to repeat."""
    records = market.prices(TABLE, "MSFT", *YEARS)

    @program(deadline=60.0)
    async def report(question: str) -> finance.Report | finance.Unanswerable:
        return await chat().user(question).generate(finance.held(records), max_tokens=900)

    async def run() -> list[finance.Report | finance.Unanswerable]:
        async with open_runtime(
            place="thread", engine=EngineConfig(path(), random_weights=True)
        ) as runtime:
            return [await runtime.run(report, str(n)) for n in range(8)]

    found = [one.figures for one in anyio.run(run) if isinstance(one, finance.Report)]
    assert max(len(figures) for figures in found) > 1
    assert all(len(set(figures)) == len(figures) for figures in found)
