"""One program, over the engine here and over the same engine behind HTTP: it sees the same.

Items, calls and partial values come of one scanner over text, whoever delivers it; so what a
program is handed is equal, and each item is out before the rest is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from agentrt import chat, embedded, program, tool
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, RunConfig
from agentrt.serve import ServeConfig, serving

ENGINE = EngineConfig(Path(embedded.path()), threads=1, kv_bytes=32_000_000)
ASK = chat(system="Use the tools.").user("What were the prices of AAPL and IBM in 2004?")


class Report(BaseModel):
    """What came out."""

    answer: Annotated[str, Field(max_length=60)]
    risks: Annotated[list[Annotated[str, Field(max_length=10)]], Field(min_length=2, max_length=3)]


@tool(effects="pure")
def price(symbol: Annotated[str, Field(max_length=5)], year: int) -> str:
    """Price of a symbol in a year."""
    return f"{symbol} {year}"


@program
async def streams() -> dict[str, Any]:
    """Everything that is streamed."""
    seen: dict[str, Any] = {}
    items = ASK.each(
        Annotated[int, Field(ge=0, le=9)], max_tokens=400, name="items", temperature=2.0, seed=5
    )
    seen["items"] = [item async for item in items]
    assert seen["items"] == await items
    plan = ASK.calls(price, max_tokens=400, name="plan")
    started = [call.start() async for call in plan]
    seen["calls"] = [call.call.arguments_json for call in await plan]
    for call in started:
        await call
    # Not after the plan: over HTTP its text is encoded anew, perhaps into other tokens.
    report = ASK.user("Report.").generate(Report, max_tokens=160, name="report")
    partials = [(partial.text, partial.data) async for partial in report.partials()]
    seen["partials"] = partials
    seen["report"] = (await report).model_dump()
    return seen


@pytest.fixture(scope="module")
def both(portal):
    """What the program saw here, and behind HTTP."""

    async def here() -> Any:
        opened = open_runtime(engine=ENGINE, place="thread", config=RunConfig(seed=3))
        async with opened as runtime:
            return await runtime.run(streams)

    async def there() -> Any:
        config = ServeConfig("embedded", port=0, grace_s=1)
        opening = open_runtime(engine=ENGINE, place="thread")
        async with (
            serving(config, opening) as url,
            open_runtime(engine=url, config=RunConfig(seed=3)) as runtime,
        ):
            return await runtime.run(streams)

    return portal.call(here), portal.call(there)


def test_items_and_calls_are_equal(both):
    """Greedy, so that it takes an equal prompt, too: what tools are for is told to both."""
    here, there = both
    assert here["items"] == there["items"]
    assert here["calls"] == there["calls"]
    assert here["report"] == there["report"]
    assert len(here["calls"]) > 0


def test_what_is_known_of_a_value_is_equal_at_each_text(both):
    """Deliveries may be cut elsewhere; at each text that both were handed the value is equal."""
    here, there = (dict(one["partials"]) for one in both)
    common = here.keys() & there.keys()
    assert {text: here[text] for text in common} == {text: there[text] for text in common}
    whole = both[0]["partials"][-1]
    assert whole == both[1]["partials"][-1]
    for text in (*here, *there):
        assert whole[0].startswith(text)
