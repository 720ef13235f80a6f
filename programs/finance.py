"""Answer a question about closing prices: plan tool calls, run them meanwhile, report.

agentrt run programs/finance.py --question "Which returned more from 2005 to 2009, AAPL or IBM?"
agentrt run programs/finance.py --question "..." --data my_prices.csv
"""

from pathlib import Path
from typing import Annotated

import market
from pydantic import BaseModel, Field

from agentrt import chat, program, tool

STOCKS = Path(__file__).parent / "data" / "stocks.csv"

TOOLS = (
    tool(effects="pure")(market.prices),
    tool(effects="pure")(market.total_return),
    tool(effects="pure")(market.annual_return),
    tool(effects="pure")(market.volatility),
    tool(effects="pure")(market.drawdown),
    tool(effects="pure")(market.compare),
    tool(effects="pure")(market.correlation),
)


class Figure(BaseModel):
    """One number that a tool computed."""

    name: Annotated[str, Field(max_length=60)]
    value: float


class Report(BaseModel):
    """The figures first, then the answer in words that stands on them."""

    figures: Annotated[list[Figure], Field(max_length=8)]
    answer: Annotated[str, Field(max_length=400)]


ANALYST = chat(system="You are a market analyst. Use only the numbers of the tools.")


@program(deadline=8.0)
async def finance(question: str, data: Path = STOCKS) -> Report:
    """Answer `question` from the closing prices in the CSV `data` (columns symbol, date, price)."""
    table = market.load(data)
    ask = ANALYST.user("Symbols: ", table.symbols, "\nQuestion: ", question)
    plan = ask.calls(*(t.bind(table=table) for t in TOOLS), max_tokens=400, name="plan")
    # Each tool starts while the rest of the plan is still being decoded.
    facts = [call.start() async for call in plan]
    report = plan.ctx.results(facts).user("Write the report.")
    return await report.generate(Report, max_tokens=700, on_limit="close")
