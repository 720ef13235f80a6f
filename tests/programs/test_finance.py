"""The finance program on the embedded model: records for what closes answer, else a reason."""

import anyio
import finance
import market
import pytest
from closes import load

from agentrt.app import open_runtime

pytestmark = pytest.mark.model
TABLE = load(finance.STOCKS)
YEARS = ("2005-01", "2009-12")
RETURNS = "Which returned more from 2005 to 2009, AAPL or IBM?"
RISK = "How volatile was MSFT in 2008?"
DIVIDEND = "What dividend did IBM pay in 2005?"
EARLY = "What was the volatility of MSFT in 1990?"

Said = dict[str, finance.Report | finance.Unanswerable]


@pytest.fixture(scope="module")
def said() -> Said:
    """What it says to each question."""

    async def run() -> Said:
        async with open_runtime(place="thread") as runtime:
            asked = (RETURNS, RISK, DIVIDEND, EARLY)
            return {text: await runtime.run(finance.finance, text) for text in asked}

    return anyio.run(run)


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


@pytest.mark.parametrize("question", [DIVIDEND, EARLY])
def test_says_that_there_is_no_answer(said: Said, question: str) -> None:
    """Another figure, another time: a reason and no number."""
    assert isinstance(said[question], finance.Unanswerable)
