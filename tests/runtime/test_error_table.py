"""Each situation that a user can get into, and what they see: one test a row of the table."""

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import (
    ConstraintError,
    ContextOverflow,
    Degenerate,
    EngineDied,
    EngineUnavailable,
    RequestRejected,
    ToolFailed,
    Unsupported,
    chat,
    json_schema,
    program,
    tool,
)
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import NodeFinished
from agentrt.testing import Reply, calls_text

ASK = chat(system="Be brief.")


class Report(BaseModel):
    ticker: str
    risk: int


@tool(effects="read")
async def filings(form: str) -> str:
    """Text of a filing."""
    await anyio.sleep(1.0)
    raise ValueError(f"no {form}")


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
    word = len(codec.encode((), prompt_segments(ASK.user("word " * 10))).token_ids)
    one = len(codec.encode((), prompt_segments(ASK.user("word " * 11))).token_ids) - word
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
            json_schema({"type": "object", "properties": {"x": {"not": {"multipleOf": 3}}}})
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


def test_what_is_to_run_on_may_repeat_itself(bench: Any) -> None:
    @program
    async def forced() -> str:
        return await ASK.user("x").generate(max_tokens=900, ignore_eos=True)

    rig = bench(["ha" * 2000], decode_tokens_per_s=1000.0)
    assert len(rig.run(forced)) > 640
    assert rig.recorder.of(NodeFinished, "str")[0].ledger.output_tokens == 900
    with pytest.raises(RequestRejected, match=r"ends after [0-9]+ of 900 tokens"):
        bench(["ha"]).run(forced)


def test_an_engine_that_dies_for_good_fails_its_requests(bench: Any) -> None:
    @program
    async def under_way() -> str:
        return await ASK.user("x").generate(name="report")

    rig = bench(["a" * 100], decode_tokens_per_s=10.0)

    async def main(runtime: Any) -> None:
        async def kill() -> None:
            await anyio.sleep(1.0)
            rig.backend.lose_engine(restarting=False)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with pytest.raises(EngineDied, match="told to die") as e:
                await runtime.run(under_way)
        assert "test_error_table.py:" in e.value.where
        assert e.value.retryable
        assert "Run it again" in str(e.value)
        with pytest.raises(EngineUnavailable, match="is gone"):
            await runtime.run(under_way)

    rig.main(main)


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
