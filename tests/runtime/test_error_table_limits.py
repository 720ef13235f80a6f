"""Deadlines and `max_tokens`: one test a row of the table of errors."""

import json
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import DeadlineExceeded, Truncated, chat, gather, limits, program, regex, tool
from agentrt.protocol.events import NodeFinished
from agentrt.runtime import RunOptions
from agentrt.testing import calls_text

ASK = chat(system="Be brief.")


class Report(BaseModel):
    ticker: str
    risk: int


@tool(effects="read")
async def slow(seconds: float) -> str:
    """Takes its time."""
    await anyio.sleep(seconds)
    return "done"


def test_a_program_that_passes_its_deadline_tells_its_path(bench: Any) -> None:
    @program(deadline=8.0)
    async def late() -> str:
        plan = await ASK.user("x").generate(name="plan", max_tokens=50)
        data = slow(5.0)
        return await ASK.user(plan, data).generate(name="report", max_tokens=700)

    rig = bench(["p" * 12, "r" * 600], decode_tokens_per_s=10.0)
    with pytest.raises(DeadlineExceeded) as e:
        rig.run(late)
    assert "program:late#0 passed its deadline of 8 s" in e.value.message
    assert "plan 1.2 s -> slow 5.0 s -> report 1.8 s, 17/700 tokens" in e.value.message
    outcomes = {f.node_id: (f.outcome, f.reason) for f in rig.recorder.of(NodeFinished)}
    assert outcomes["late#0/report#0"] == ("cancelled", "its scope failed")
    assert outcomes["late#0"][0] == "failed"


def test_a_deadline_tells_the_slack_of_each_live_branch(bench: Any) -> None:
    """Deadline less the instant at which each would be done; unknown without a pace."""

    @tool(effects="read", timeout=30.0)
    async def bounded() -> str:
        """Is ended by its timeout at the latest."""
        await anyio.sleep(100.0)
        return "done"

    @program(deadline=4.0)
    async def late() -> str:
        plan = await ASK.user("x").generate(name="plan", max_tokens=50)
        bounded()
        slow(100.0)
        ASK.user("y").generate(name="side", max_tokens=48)
        ASK.user(slow(100.0)).generate(name="waits")
        return await ASK.user(plan).generate(name="report", max_tokens=128)

    rig = bench(["p" * 20, "s" * 100, "r" * 600], decode_tokens_per_s=10.0)
    with pytest.raises(DeadlineExceeded) as e:
        rig.run(late)
    plan, report = e.value.progress.path
    assert (plan.name, plan.live, plan.slack_s, report.name) == ("plan", False, None, "report")
    assert plan.took_s == pytest.approx(2.0)
    assert report.produced_tokens == 19
    assert report.slack_s == pytest.approx(-(128 - 19) * 1.9 / 19, rel=0.1)
    slack = {
        branch.node_id.rpartition("/")[2]: branch.slack_s for branch in e.value.progress.branches
    }
    assert slack["bounded#0"] == pytest.approx(-28.0)
    assert slack["side#0"] == pytest.approx(-(48 - 19) * 1.9 / 19, rel=0.1)
    assert slack["slow#0"] is slack["slow#1"] is slack["waits#0"] is None
    assert list(slack)[:2] == ["bounded#0", "side#0"], "the latest first"
    assert "plan 2.0 s -> report 2.0 s, 19/128 tokens (slack -10." in e.value.message
    assert "; also under way: bounded 2.0 s (slack -28.0 s), side 2.0 s, 19/48" in e.value.message


def test_the_slack_of_a_node_with_a_deadline_of_its_own(bench: Any) -> None:
    """The `limits` block passes; what has a nearer deadline than its program is told by that."""

    @program(deadline=60.0)
    async def late() -> str:
        side = ASK.user("y").generate(name="side", max_tokens=40, deadline=5.0)
        async with limits(seconds=2.0):
            await slow(50.0)
        return await side

    rig = bench(["s" * 100], decode_tokens_per_s=10.0)
    with pytest.raises(DeadlineExceeded, match=r"limits passed 2 s: slow 2\.0 s; also") as e:
        rig.run(late)
    (side,) = e.value.progress.branches
    assert side.slack_s == pytest.approx(3.0 - (40 - side.produced_tokens) / 10, abs=0.2)


def test_many_live_branches_are_told_in_one_line(bench: Any) -> None:
    @program(deadline=1.0)
    async def late() -> None:
        await gather(*[slow(9.0) for _ in range(12)])

    with pytest.raises(DeadlineExceeded, match=r"slow 1\.0 s and 3 more") as e:
        bench([]).run(late)
    assert len(e.value.progress.branches) == 11
    assert "\n" not in e.value.message


def test_a_node_that_passes_its_own_deadline(bench: Any) -> None:
    @program
    async def late() -> str:
        return await ASK.user("x").generate(name="report", deadline=0.5)

    rig = bench(["r" * 600], decode_tokens_per_s=10.0)
    with pytest.raises(DeadlineExceeded) as e:
        rig.run(late)
    assert "report" in e.value.message
    assert "test_error_table_limits.py:" in e.value.where


def test_a_deadline_closes_the_output_where_asked(bench: Any, codec: Any) -> None:
    """The grammar is driven to its shortest valid end before the deadline."""

    @program(deadline=2.0)
    async def late() -> tuple[Report, bool]:
        gen = ASK.user("x").generate(Report, on_limit="close", max_tokens=300)
        return await gen, gen.meta.closed_early

    answer = json.dumps({"ticker": "A" * 200, "risk": 3}, separators=(",", ":"))
    rig = bench([answer], decode_tokens_per_s=20.0, codec=codec)
    report, closed = rig.run(late)
    assert closed
    assert isinstance(report, Report)
    assert 0 < len(report.ticker) < 200


def test_a_run_has_a_deadline_of_its_own(bench: Any) -> None:
    @program(deadline=100.0)
    async def late() -> str:
        return await slow(50.0)

    with pytest.raises(DeadlineExceeded, match="deadline of 3 s"):
        bench([]).run(late, options=RunOptions(deadline_s=3.0))


@pytest.mark.parametrize(
    ("form", "text", "max_tokens", "partial"),
    [
        (Report, '{"ticker":"NVDA","risk":3}', 13, {"ticker": "NV"}),
        (Report, '{"ticker":"NVDA","risk":3}', 25, {"ticker": "NVDA"}),  # 3 may go on
        (Report, '{"ticker":"NVDA","risk":3}', 1, {}),
        (list[int], "[1,2,3,4,5,6,7]", 8, [1, 2, 3]),
        (int, "1234", 2, None),
        (regex("[a-z]{9}"), "abcdefghi", 4, "abcd"),
    ],
)
def test_max_tokens_in_a_structure_is_truncated(
    bench: Any, form: Any, text: str, max_tokens: int, partial: Any
) -> None:
    """The error has the text and what is known of the value."""

    @program
    async def short() -> Any:
        return await ASK.user("x").generate(form, max_tokens=max_tokens)

    with pytest.raises(Truncated, match=f"reached max_tokens={max_tokens} before") as e:
        bench([text]).run(short)
    assert e.value.partial_text == text[:max_tokens]
    assert e.value.partial == partial
    assert "on_limit='close'" in str(e.value)


def test_a_truncated_list_has_the_items_that_had_closed(bench: Any) -> None:
    text = '[{"ticker":"A","risk":1},{"ticker":"B","risk":2},{"ticker":"C"'

    @program
    async def short() -> Any:
        return await ASK.user("x").each(Report, max_tokens=len(text))

    with pytest.raises(Truncated) as e:
        bench([text + ',"risk":3}]']).run(short)
    assert e.value.partial == [Report(ticker="A", risk=1), Report(ticker="B", risk=2)]


def test_a_truncated_plan_has_the_calls_that_had_closed(bench: Any) -> None:
    text = calls_text(("slow", {"seconds": 1.0}), ("slow", {"seconds": 2.0}))

    @program
    async def short() -> Any:
        return await ASK.user("x").calls(slow, max_tokens=len(text) - 3)

    with pytest.raises(Truncated) as e:
        bench([text]).run(short)
    assert [call.arguments for call in e.value.partial] == [{"seconds": 1.0}]


def test_a_truncated_step_has_what_it_began(bench: Any) -> None:
    @program
    async def short() -> Any:
        return await ASK.user("x").step(tools=[slow], final=Report, max_tokens=13)

    with pytest.raises(Truncated) as e:
        bench(['{"ticker":"NVDA","risk":3}']).run(short)
    assert e.value.partial == {"ticker": "NV"}


def test_max_tokens_closes_the_output_where_asked(bench: Any) -> None:
    @program
    async def short() -> tuple[Report, bool]:
        gen = ASK.user("x").generate(Report, max_tokens=30, on_limit="close")
        return await gen, gen.meta.closed_early

    report, closed = bench(['{"ticker":"NVDA NVDA NVDA","risk":3}']).run(short)
    assert closed
    assert report.ticker.startswith("N")


def test_max_tokens_of_free_text_is_no_error(bench: Any) -> None:
    @program
    async def short() -> tuple[str, str]:
        gen = ASK.user("x").generate(max_tokens=3)
        return await gen, gen.meta.finish_reason

    assert bench(["abcdef"]).run(short) == ("abc", "length")
