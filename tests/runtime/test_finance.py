"""A program of the finance kind, whole: a plan, tools beside it, a typed report."""

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import chat, program, tool
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import ItemClosed, NodeDeclared, NodeFinished, RequestSent, ToolStarted
from agentrt.testing import calls_text


class Report(BaseModel):
    ticker: str
    risk: int


@tool(effects="read")
async def prices(ticker: str, days: int = 90) -> list[float]:
    """Daily closes."""
    await anyio.sleep(5.0)
    return [1.0, float(days)]


@tool(effects="read")
def filings(ticker: str, form: str) -> str:
    """Text of a filing."""
    return f"{form} of {ticker}"


ANALYST = chat(system="You are an analyst.")


@program(deadline=60.0)
async def finance(ticker: str) -> Report:
    ask = ANALYST.user("Ticker: ", ticker)
    plan = ask.calls(prices, filings, max_tokens=400, name="plan")
    data = [call.start() async for call in plan]
    report = plan.ctx.results(data).user("Write the report.").generate(Report, name="report")
    return await report


CALLS = (
    ("prices", {"ticker": "NVDA", "days": 30}),
    ("filings", {"ticker": "NVDA", "form": "10-K"}),
)


def script_of(frame: Any) -> Any:
    def script(request: GenerateRequest, prompt: str) -> str:
        if "plan" in request.node_id:
            return calls_text(*CALLS, frame=frame)
        return '{"ticker":"NVDA","risk":3}'

    return script


@pytest.mark.parametrize("tokens", [True, False])
def test_a_plan_runs_its_tools_and_reports(bench: Any, codec: Any, tokens: bool) -> None:
    from agentrt.base.segments import JSON_ARRAY_FRAME

    frame = codec.call_frame if tokens else JSON_ARRAY_FRAME
    rig = bench(script_of(frame), codec=codec if tokens else None, decode_tokens_per_s=100.0)
    assert rig.run(finance, "NVDA") == Report(ticker="NVDA", risk=3)
    seen = rig.recorder
    finished = {event.node_id: event.outcome for event in seen.of(NodeFinished)}
    assert finished == {
        "finance#0": "ok",
        "finance#0/plan#0": "ok",
        "finance#0/prices#0": "ok",
        "finance#0/filings#0": "ok",
        "finance#0/report#0": "ok",
    }
    closed = seen.of(ItemClosed)
    plan_end = seen.of(NodeFinished, "plan")[0]
    assert [event.index for event in closed] == [0, 1]
    started = seen.of(ToolStarted, "prices")[0]
    assert started.at_s < plan_end.at_s, "a tool starts while its plan is being decoded"
    sent = {event.node_id: event.complete for event in seen.of(RequestSent)}
    assert sent == {"finance#0/plan#0": True, "finance#0/report#0": not tokens}
    declared = {event.node_id: event for event in seen.of(NodeDeclared)}
    assert declared["finance#0/prices#0"].plan == "finance#0/plan#0"
    assert set(declared["finance#0/report#0"].deps) == {
        "finance#0/plan#0",
        "finance#0/prices#0",
        "finance#0/filings#0",
    }
    request = next(r for r in rig.backend.seen.requests if r.node_id == "finance#0/report#0")
    prompt = rig.backend.seen.prompts[request.request_id]
    assert "[1.0,30.0]" in prompt
    assert prompt.index("[1.0,30.0]") < prompt.index("10-K of NVDA")
