"""Answer a question about closing prices: plan tool calls, run them meanwhile, report.

agentrt run programs/finance.py --question "Which returned more from 2005 to 2009, AAPL or IBM?"
agentrt run programs/finance.py --question "..." --data my_prices.csv
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import closes
import market
from anyio import to_thread
from pydantic import BaseModel, Field
from typing_extensions import TypeForm

from agentrt import OneOf, chat, program, tool

STOCKS = Path(__file__).parent / "data" / "stocks.csv"

TOOLS = (
    tool(effects="pure")(market.prices),
    tool(effects="pure")(market.total_return),
    tool(effects="pure")(market.annual_return),
    tool(effects="pure")(market.volatility),
    tool(effects="pure")(market.drawdown),
    tool(effects="pure")(market.monthly_returns),
    tool(effects="pure")(market.compare),
    tool(effects="pure")(market.correlation),
    tool(effects="pure")(market.unanswerable),
)


class Report(BaseModel):
    """The figures first, then the answer in words that stands on them."""

    figures: list[market.Figure]
    answer: Annotated[str, Field(max_length=300)]


class Unanswerable(BaseModel):
    """Why there is no figure."""

    reason: Annotated[str, Field(max_length=200)]


ANALYST = chat(system="You are a market analyst. Use only the numbers of the tools.")


@program(deadline=8.0)
async def finance(question: str, data: Path = STOCKS) -> Report | Unanswerable:
    """Answer `question` from the closes in the CSV `data` (symbol, date, price, maybe name)."""
    table = await to_thread.run_sync(closes.load, data)  # days of decades take a while
    ask = ANALYST.user("Symbols: ", table.shown, "\nQuestion: ", question)
    plan = ask.calls(*(t.bind(table=table) for t in TOOLS), max_tokens=400, name="plan")
    # Each tool starts while the rest of the plan is still being decoded.
    facts = [call.start() async for call in plan]
    last = plan.ctx.results(facts).user("Write the report.")
    return await last.generate(held(facts), name="report", max_tokens=900, on_limit="close")


def held(facts: Sequence[object]) -> TypeForm[Report | Unanswerable]:
    """A report whose figures are records of `facts`, each whole and once; else a reason."""
    once = Field(min_length=1, max_length=12, json_schema_extra={"uniqueItems": True})

    class Held(Report):
        figures: Annotated[list[Annotated[market.Figure, OneOf(facts)]], once]

    return Held | Unanswerable
