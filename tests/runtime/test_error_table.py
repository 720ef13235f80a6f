"""Each situation that a user can get into, and what they see: one test a row of the table."""

import json
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import (
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    Degenerate,
    EngineDied,
    RequestRejected,
    ToolFailed,
    Truncated,
    Unsupported,
    chat,
    gather,
    json_schema,
    limits,
    program,
    regex,
    tool,
)
from agentrt.backend import GenerateRequest
from agentrt.events import NodeFinished
from agentrt.runtime import RunOptions
from agentrt.scripted import Reply, calls_text

ASK = chat(system="Be brief.")


class Report(BaseModel):
    ticker: str
    risk: int


@tool(effects="read")
async def filings(form: str) -> str:
    """Text of a filing."""
    await anyio.sleep(1.0)
    raise ValueError(f"no {form}")


@tool(effects="read")
async def slow(seconds: float) -> str:
    """Takes its time."""
    await anyio.sleep(seconds)
    return "done"


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def test_context_overflow_is_told_before_any_decode(bench: Any, codec: Any) -> None:
    window = codec.window_tokens

    @program
    async def long() -> str:
        text = "word " * window
        return await ASK.user("Data: ", text, "\nSummarise.").generate(max_tokens=10)

    rig = bench([], codec=codec)
    with pytest.raises(ContextOverflow) as e:
        rig.run(long)
    assert e.value.window_tokens == window
    assert e.value.needed_tokens > window
    assert f"of {window:,} tokens" in e.value.message
    assert "<- largest" in e.value.message
    largest = next(line for line in e.value.message.splitlines() if "largest" in line)
    assert "user 'word word" in largest
    assert "output of at least 1" in e.value.message
    assert "test_error_table.py:" in e.value.where
    assert not rig.backend.seen.requests, "nothing was sent"


def test_context_overflow_when_the_last_part_arrives(bench: Any, codec: Any) -> None:
    window = codec.window_tokens

    @tool(effects="pure")
    async def big() -> str:
        """Far too much."""
        await anyio.sleep(1.0)
        return str("word " * window)

    @program
    async def long() -> Any:
        return await ASK.user("Data: ", big()).generate(max_tokens=10)

    rig = bench(["never"], codec=codec)
    with pytest.raises(ContextOverflow) as e:
        rig.run(long)
    assert "<- largest" in e.value.message
    assert not rig.backend.seen.steps, "nothing was decoded"


def test_overflow_names_the_smallest_valid_output(bench: Any, codec: Any) -> None:
    word = len(codec.encode((), ASK.user("word " * 10).segments()).token_ids)
    one = len(codec.encode((), ASK.user("word " * 11).segments()).token_ids) - word
    count = 10 + (codec.window_tokens - word) // one - 1

    @program
    async def tight() -> Report:
        return await ASK.user("word " * count).generate(Report, max_tokens=64)

    with pytest.raises(ContextOverflow) as e:
        bench([], codec=codec).run(tight)
    least = int(e.value.message.splitlines()[0].rpartition(" ")[2])
    assert least > 1


def test_a_schema_that_cannot_compile_is_told_on_the_users_line(bench: Any) -> None:
    @program
    async def bad() -> Any:
        return await ASK.user("x").generate(
            json_schema({"type": "object", "properties": {"x": {"not": {"type": "string"}}}})
        )

    with pytest.raises(ConstraintError) as e:
        bench([]).run(bad)
    assert (e.value.pointer, e.value.keyword) == ("/properties/x/not", "not")
    line = next(f.lineno for f in _frames(e.value) if "json_schema(" in (f.line or ""))
    assert e.value.where.endswith(f"test_error_table.py:{line}")


def test_a_constraint_the_engine_does_not_enforce_is_refused(bench: Any) -> None:
    @program
    async def typed() -> int:
        return await ASK.user("x").generate(int)

    rig = bench([])
    object.__setattr__(rig.backend.capabilities, "constraints", frozenset({"choice"}))
    with pytest.raises(Unsupported, match=r"does not enforce json constraints.*choice") as e:
        rig.run(typed)
    assert "test_error_table.py:" in e.value.where


def test_a_tool_that_the_program_calls_raises_from_its_cause(bench: Any) -> None:
    @program
    async def calls() -> str:
        return await filings("10-K")

    with pytest.raises(ToolFailed, match="no 10-K") as e:
        bench([]).run(calls)
    assert isinstance(e.value.__cause__, ValueError)
    assert "in node tool:filings#0" in notes(e.value)
    assert "in node program:calls#0" in notes(e.value)
    assert '{"form":"10-K"}' in notes(e.value)
    assert "attempt 1 of 1" in notes(e.value)
    assert "after 1.000 s" in notes(e.value)


def test_dependents_of_a_failed_tool_fail_with_the_same_error(bench: Any) -> None:
    raised: list[BaseException | None] = []

    @program
    async def calls() -> str:
        data = filings("10-K")
        answer = ASK.user("Data: ", data).generate()
        more = answer.ctx.user("More").generate()
        try:
            return await more
        except ToolFailed:
            raised.extend((data.error, answer.error, more.error))
            return "handled through the dependent"

    assert bench([]).run(calls) == "handled through the dependent"
    assert raised[0] is raised[1] is raised[2] is not None


def test_a_tool_that_the_model_called_tells_the_model(bench: Any) -> None:
    """The failure is a result in the chat; awaiting the node raises."""

    def script(request: GenerateRequest, prompt: str) -> str:
        if "plan" in request.node_id:
            return calls_text(("filings", {"form": "10-K"}))
        return "ok" if "error: no 10-K" in prompt else "the model was not told"

    @program
    async def reacts() -> tuple[str, str]:
        plan = ASK.user("x").calls(filings, name="plan")
        data = [call.start() async for call in plan]
        answer = await plan.ctx.results(data).user("Report.").generate()
        try:
            await data[0]
        except ToolFailed as error:
            return answer, error.message
        return answer, "no error"

    answer, message = bench(script).run(reacts)
    assert answer == "ok"
    assert "no 10-K" in message


def test_a_call_with_arguments_that_do_not_fit_tells_the_model(bench: Any) -> None:
    """What the grammar cannot know is refused by the tool's own types."""
    from typing import Annotated

    from pydantic import AfterValidator

    def even(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n

    @tool(effects="pure")
    def half(n: Annotated[int, AfterValidator(even)]) -> int:
        """Half of n."""
        return n // 2

    def script(request: GenerateRequest, prompt: str) -> str:
        if "plan" in request.node_id:
            return calls_text(("half", {"n": 3}))
        return "told" if "refuses its arguments" in prompt else prompt

    @program
    async def reacts() -> str:
        plan = ASK.user("x").calls(half, name="plan")
        data = [call.start() async for call in plan]
        return await plan.ctx.results(data).user("Report.").generate()

    assert bench(script).run(reacts) == "told"


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
    plan, report = e.value.so_far.path
    assert (plan.name, plan.live, plan.slack_s, report.name) == ("plan", False, None, "report")
    assert plan.took_s == pytest.approx(2.0)
    assert report.produced_tokens == 19
    assert report.slack_s == pytest.approx(-(128 - 19) * 1.9 / 19, rel=0.1)
    slack = {
        branch.node_id.rpartition("/")[2]: branch.slack_s for branch in e.value.so_far.branches
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
    (side,) = e.value.so_far.branches
    assert side.slack_s == pytest.approx(3.0 - (40 - side.produced_tokens) / 10, abs=0.2)


def test_many_live_branches_are_told_in_one_line(bench: Any) -> None:
    @program(deadline=1.0)
    async def late() -> None:
        await gather(*[slow(9.0) for _ in range(12)])

    with pytest.raises(DeadlineExceeded, match=r"slow 1\.0 s and 3 more") as e:
        bench([]).run(late)
    assert len(e.value.so_far.branches) == 11
    assert "\n" not in e.value.message


def test_a_node_that_passes_its_own_deadline(bench: Any) -> None:
    @program
    async def late() -> str:
        return await ASK.user("x").generate(name="report", deadline=0.5)

    rig = bench(["r" * 600], decode_tokens_per_s=10.0)
    with pytest.raises(DeadlineExceeded) as e:
        rig.run(late)
    assert "report" in e.value.message
    assert "test_error_table.py:" in e.value.where


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


@pytest.mark.parametrize("text", ["ha" * 1000, "\n \n " * 500, "x" * 2000])
def test_a_model_that_repeats_itself_is_degenerate(bench: Any, text: str) -> None:
    @program
    async def stuck() -> str:
        return await ASK.user("x").generate(max_tokens=4000)

    rig = bench([text], decode_tokens_per_s=1000.0)
    with pytest.raises(Degenerate, match="generate:str#0 repeats itself") as e:
        rig.run(stuck)
    assert repr(text)[-6:-2] in e.value.message
    end = rig.recorder.of(NodeFinished, "str")[0]
    assert end.ledger.output_tokens < 1000, "it was stopped"


def test_an_engine_that_dies_fails_its_requests(bench: Any) -> None:
    @program
    async def under_way() -> str:
        return await ASK.user("x").generate(name="report")

    rig = bench(["a" * 100, "after"], decode_tokens_per_s=10.0)

    async def main(runtime: Any) -> str:
        async def kill() -> None:
            await anyio.sleep(1.0)
            rig.backend.lose_engine(restarting=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with pytest.raises(EngineDied, match="told to die") as e:
                await runtime.run(under_way)
        assert "test_error_table.py:" in e.value.where
        assert e.value.retryable
        assert "Run it again" in str(e.value)
        return str(await runtime.run(under_way))

    assert rig.main(main) == "after"


def test_an_engine_that_fails_a_request(bench: Any) -> None:
    @program
    async def fails() -> str:
        return await ASK.user("x").generate()

    reply = Reply("part", error=RequestRejected("too hot", hint="Cool it"))
    rig = bench([reply])
    with pytest.raises(RequestRejected, match=r"too hot\. Cool it") as e:
        rig.run(fails)
    assert "in node generate:str#0" in notes(e.value)


def test_an_engine_that_breaks_its_promise_is_named(bench: Any) -> None:
    """An output that is not of its type is the engine's fault, and the error says so."""

    @program
    async def typed() -> Report:
        return await ASK.user("x").generate(Report)

    rig = bench(['{"ticker":3}'])
    rig.backend._answerer._compile = lambda spec: _Anything()
    with pytest.raises(RequestRejected, match=r"is no Report .*does not enforce output types"):
        rig.run(typed)


class _Anything:
    def start(self) -> Any:
        return self

    def advance(self, ids: Any) -> int:
        return len(ids)

    def can_stop(self) -> bool:
        return True


def _frames(error: BaseException) -> Any:
    import traceback

    return traceback.extract_tb(error.__traceback__)
