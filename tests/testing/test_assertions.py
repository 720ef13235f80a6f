"""What a failed assertion says: one clear difference, and where the time went."""

import anyio
import pytest

from agentrt import Prices, chat, program, tool
from agentrt.testing import (
    PlayedRun,
    Reply,
    ScriptedRuntime,
    assert_compound_under,
    assert_cost_under,
    assert_critical_path,
    assert_prompt_contains,
    assert_tokens_under,
    assert_tool_calls,
    call,
)


@tool(effects="read")
async def price(symbol: str) -> float:
    """The price of a symbol."""
    await anyio.sleep(3.0)
    return 12.5


@program
async def worth(symbol: str) -> str:
    """What a symbol is worth."""
    plan = chat().user("What is it worth? ", symbol).calls(price, name="plan")
    facts = [one.start() async for one in plan]
    guard = chat().user("Is it advice?").generate(name="guard")
    report = plan.ctx.results(facts).user("Report.").generate(name="report")
    return f"{await report} {await guard}"


@pytest.fixture(scope="module")
def run() -> PlayedRun:
    script = {
        "plan": Reply(calls=(call("price", symbol="IBM"),), queue_s=0.5, prefill_s=0.5),
        "report": Reply("12.5", prefill_s=1.0, decode_s=1.0),
        "guard": "no",
    }
    return ScriptedRuntime(script, prices=Prices.of(input=0, output=1)).run(worth, "IBM")


def test_a_critical_path_by_names_and_patterns(run: PlayedRun) -> None:
    assert_critical_path(run, ["plan", "price", "report"])
    assert_critical_path(run, ["plan", "p*", "rep?rt"])


def test_another_critical_path_is_a_difference_with_times(run: PlayedRun) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_critical_path(run, ["plan", "filings", "report", "check"])
    assert str(raised.value).splitlines() == [
        "the critical path is another one (- expected, + actual):",
        "    plan       1.000 s",
        "  - filings",
        "  + price      3.000 s",
        "    report     2.000 s",
        "  - check",
        "  compound 6.000 s = queue 0.500 + prefill 1.500 + decode 1.000 + tool 3.000",
    ]


def test_a_compound_latency_over_the_limit_says_where_the_time_went(run: PlayedRun) -> None:
    assert_compound_under(run, 6.5)
    with pytest.raises(AssertionError) as raised:
        assert_compound_under(run, 2.0)
    lines = str(raised.value).splitlines()
    assert lines[0] == "compound latency 6.000 s is not under 2 s"
    assert "tool 3.000" in lines[1]
    assert lines[2] == "critical path:"
    assert lines[3].startswith("  plan      1.000 s  queue 0.500 + prefill 0.500 ")
    assert "test_assertions.py:" in lines[4]
    assert lines[-1] == "without price it would take 3.000 s"


def test_tool_calls_in_order_and_by_name(run: PlayedRun) -> None:
    assert_tool_calls(run, [call("price", symbol="IBM")])
    assert_tool_calls(run, ["price"], in_order=False)
    with pytest.raises(AssertionError) as raised:
        assert_tool_calls(run, [call("price", symbol="AAPL"), "filings"])
    assert str(raised.value).splitlines()[1:] == [
        '  - price(symbol="AAPL")',
        '  + price(symbol="IBM")',
        "  - filings",
    ]
    with pytest.raises(AssertionError, match="filings"):
        assert_tool_calls(run, ["filings"], in_order=False)


def test_prompts_tokens_and_cost(run: PlayedRun) -> None:
    assert_prompt_contains(run, "report", "12.5", "Report.")
    with pytest.raises(AssertionError, match=r"prompt of 'report' lacks 'Sell!':\n<user> What"):
        assert_prompt_contains(run, "report", "Report.", "Sell!")
    assert_tokens_under(run, 1000)
    with pytest.raises(AssertionError, match=r"(?s)tokens are not under 5:.* in .* out  worth#0/"):
        assert_tokens_under(run, 5)
    assert_cost_under(run, "0.001")
    with pytest.raises(AssertionError, match=r"(?s)USD is not under 0.00001:\n.*worth#0/"):
        assert_cost_under(run, "0.00001")


def test_a_cost_needs_prices() -> None:
    @program
    async def nothing() -> None:
        pass

    with pytest.raises(AssertionError, match="no prices"):
        assert_cost_under(ScriptedRuntime().run(nothing), 1)
