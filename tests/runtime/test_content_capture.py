"""Content of nodes: each message of a chat once a run, and what was said before a node broke."""

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal

import anyio
import pytest

from agentrt import (
    AgentrtError,
    Chat,
    ToolFailed,
    ask,
    chat,
    gather,
    json_schema,
    program,
    race,
    tool,
)
from agentrt.base.segments import Close, Generated, Open, ResultOf, Text, ValueText
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.node_content import NodeContent
from agentrt.runtime import RunOptions
from agentrt.testing import Reply, calls_text

ASK = chat(system="Be brief.")
SYSTEM = (Open("system"), Text("Be brief."), Close())


def user(*texts: Text) -> tuple[Any, ...]:
    return (Open("user"), *texts, Close())


@pytest.fixture
def content_of(bench: Any) -> Any:
    """Runs a program; gives the content of its nodes by the last part of their path."""

    def run(script: Any, of: Any, *args: Any, **given: Any) -> dict[str, NodeContent]:
        rig = bench(script, **given.pop("speeds", {}))
        contents: list[NodeContent] = []
        rig.recorder.on_content = contents.append
        with suppress(AgentrtError, ValueError):  # what was said before is looked at
            rig.run(of, *args, **given)
        found = {one.node_id.rpartition("/")[2]: one for one in contents}
        assert len(found) == len(contents)
        return found

    return run


@tool(effects="pure")
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def planned(request: GenerateRequest, prompt: str) -> str:
    return calls_text(("double", {"x": 4})) if "plan" in request.node_id else "eight"


@program
async def react(n: int) -> str:
    plan = ASK.user("Double 4.").calls(double, name="plan")
    data = [call.start() async for call in plan]
    left, right = plan.ctx.results(data).fork(2)
    one = left.user("And?").generate(name="one")
    two = right.user("Or ", data[0], "?").generate(name="two")
    await gather(one, two)
    return await one.ctx.user("So ", two).generate(name="last")


def test_a_link_is_told_once_and_named_by_those_that_share_it(content_of: Any) -> None:
    found = content_of(planned, react, 3)
    plan, one, two, last = (found[f"{name}#0"] for name in ("plan", "one", "two", "last"))
    assert [link.segments for link in plan.links] == [SYSTEM, user(Text("Double 4."))]
    assert [link.after for link in plan.links] == [None, plan.links[0].serial]
    answer, results, question = one.links
    assert (answer.answer_of, answer.after) == ("react#0/plan#0", plan.prompt)
    call_id = plan.answer.calls[0].call_id
    tool_text = ValueText("8", "react#0/double#0")
    assert results.segments == (Open("tool"), ResultOf(call_id, "double"), tool_text, Close())
    assert question.segments == user(Text("And?"))
    (other,) = two.links
    assert (other.after, other.serial) == (results.serial, two.prompt)
    assert other.segments == user(Text("Or "), tool_text, Text("?"))
    assert [link.answer_of for link in last.links] == ["react#0/one#0", ""]
    assert last.links[0].after == one.prompt
    assert last.links[1].segments == user(Text("So "), ValueText("eight", "react#0/two#0"))


def test_tools_programs_and_questions_have_arguments_and_results(content_of: Any) -> None:
    @program
    async def inner(rows: list[int], before: Any, base: Chat) -> list[int]:
        rows.append(3)
        return rows

    @program
    async def outer() -> bool:
        number = double(2)
        await inner([1, 2], number, ASK)
        return await ask(bool, "Go on?")

    options = RunOptions(on_ask=lambda question: "yes")
    found = content_of(planned, outer, options=options)
    assert (found["double#0"].arguments, found["double#0"].result) == ({"x": 2}, 4)
    called = found["inner#0"]
    assert called.arguments == {"rows": [1, 2, 3], "before": "<outer#0/double#0>", "base": "<Chat>"}
    assert called.result == [1, 2, 3]
    assert (found["ask#0"].arguments, found["ask#0"].result) == ("Go on?", True)
    assert found["outer#0"].arguments == {}


def test_a_call_of_a_model_keeps_the_models_own_text(content_of: Any) -> None:
    found = content_of(planned, react, 3)
    called = found["double#0"]
    assert called.arguments_json == '{"x":4}'
    assert called.call_id == found["plan#0"].answer.calls[0].call_id
    assert (called.result, called.has_result) == (8, True)


def test_each_attempt_is_there(content_of: Any, codec: Codec) -> None:
    numbers = {"type": "array", "items": {"type": "number"}, "maxItems": 99}
    form = json_schema(numbers | {"contains": {"const": 7}}, check=True)
    answers = iter(["[1]", "[7]"])

    @program
    async def job() -> Any:
        return await ASK.user("Seven?").generate(form, name="seven", max_tokens=40)

    found = content_of(lambda request, prompt: next(answers), job, speeds={"codec": codec})[
        "seven#0"
    ]
    assert [one.text for one in found.attempts] == ["[1]"]
    assert found.attempts[0].reason
    assert found.answer.text == "[7]"
    assert [link.segments for link in found.links] == [SYSTEM, user(Text("Seven?"))]


@pytest.mark.parametrize("deadline_s", [None, 1.85])
def test_reasoning_is_apart_from_the_answer_also_where_it_was_cut(
    content_of: Any, deadline_s: float | None
) -> None:
    @program
    async def thinks() -> int:
        asked = ASK.user("?")
        given: Any = {"thinking": 50, "max_tokens": 120, "deadline": deadline_s, "name": "think"}
        return await asked.generate(int, **given)

    def script(request: GenerateRequest, prompt: str) -> Reply:
        return Reply("42", thinking="Hm, let me see.")

    found = content_of(script, thinks, speeds={"decode_tokens_per_s": 10.0})
    answer = found["think#0"].answer
    if deadline_s is None:
        assert (answer.thinking, answer.visible_text) == ("Hm, let me see.", "42")
    else:
        assert "Hm, let me see.".startswith(answer.thinking)
        assert (bool(answer.thinking), answer.visible_text) == (True, "")


def test_what_was_said_before_a_node_broke(content_of: Any) -> None:
    @program
    async def late() -> str:
        return await ASK.user("Talk.").generate(name="talk", deadline=0.55, max_tokens=100)

    speeds = {"decode_tokens_per_s": 10.0}
    found = content_of(lambda request, prompt: "one two three four", late, speeds=speeds)["talk#0"]
    assert "one two three four".startswith(found.answer.text)
    assert 0 < len(found.answer.text) < len("one two three four")
    assert found.links


def test_a_lost_race_and_a_failed_tool(content_of: Any) -> None:
    @tool(effects="read")
    async def broken() -> int:
        raise ValueError("no")

    @program
    async def racing() -> str:
        quick = ASK.user("Quick?").generate(name="quick", max_tokens=10)
        slow = ASK.user("Slow?").generate(name="slow", max_tokens=400)
        async with race([quick, slow]) as finished:
            said = await anext(aiter(finished))
        with suppress(ToolFailed):
            await broken()
        return said

    def script(request: GenerateRequest, prompt: str) -> str:
        return "quick" if "quick" in request.node_id else "s" * 200

    found = content_of(script, racing, speeds={"decode_tokens_per_s": 10.0})
    assert found["quick#0"].answer.text == "quick"
    assert set(found["slow#0"].answer.text) == {"s"}
    assert (found["broken#0"].has_result, found["broken#0"].arguments) == (False, {})


def test_a_tool_that_broke_has_the_text_that_it_yielded(content_of: Any) -> None:
    @tool(effects="read")
    async def page() -> AsyncIterator[str]:
        yield "one "
        yield "two "
        raise ValueError("no more")

    @program
    async def reading() -> str:
        return await page()

    found = content_of(planned, reading)["page#0"]
    assert (found.result, found.has_result) == ("one two ", True)


def test_a_prompt_with_a_failed_input_says_so(content_of: Any) -> None:
    @tool(effects="read")
    async def broken() -> int:
        raise ValueError("no")

    @program
    async def asking() -> str:
        return await ASK.user("Of ", broken()).generate(name="never")

    found = content_of(planned, asking)["never#0"]
    assert found.answer is None
    assert ValueText("[failed: ToolFailed]", "asking#0/broken#0") in found.links[-1].segments


def test_a_program_of_no_module_has_its_result(content_of: Any) -> None:
    async def nameless() -> int:
        return 3

    nameless.__module__ = None  # type: ignore[assignment]  # as `exec` makes functions
    assert content_of(planned, program(nameless))["nameless#0"].result == 3


def test_a_chat_of_an_earlier_run_is_whole_in_the_next(bench: Any) -> None:
    rig = bench(lambda request, prompt: "yes")
    contents: list[NodeContent] = []
    rig.recorder.on_content = contents.append

    @program
    async def turn(base: Chat) -> Chat:
        said = base.user("And?").generate(Literal["yes"], name="said")
        await said
        return said.ctx

    async def twice(runtime: Any) -> None:
        await runtime.run(turn, await runtime.run(turn, ASK))

    rig.main(twice)
    second = [one for one in contents if one.links][1]
    assert [link.answer_of for link in second.links] == [""] * 4
    assert isinstance(second.links[2].segments[1], Generated)


def test_content_keeps_no_chat_alive(bench: Any) -> None:
    rig = bench(lambda request, prompt: "yes")
    contents: list[NodeContent] = []
    rig.recorder.on_content = contents.append
    gone: list[weakref.ref[Any]] = []

    @program
    async def talk() -> bool:
        base = ASK.user("One?")
        first = base.generate(name="first")
        await first
        gone.extend([weakref.ref(base), weakref.ref(first)])
        del base, first
        await anyio.sleep(1.0)
        gc.collect()
        return all(ref() is None for ref in gone)

    result: list[bool] = []

    async def main(runtime: Any) -> None:
        result.append(await runtime.run(talk))

    rig.main(main)
    assert result == [True]
    assert contents


def test_without_an_observer_of_content_nothing_is_made(bench: Any) -> None:
    rig = bench(planned)
    made: list[NodeContent] = []

    async def main(runtime: Any) -> None:
        await runtime.run(react, 3)
        rig.recorder.on_content = made.append  # it begins with the next run
        await runtime.run(react, 3)

    rig.main(main)
    assert len({one.run_id for one in made}) == 1


def test_an_observer_of_content_that_raises_is_dropped(bench: Any) -> None:
    rig = bench(planned)

    def fail(content: NodeContent) -> None:
        raise ValueError("full")

    rig.recorder.on_content = fail
    dropped: list[Any] = []

    async def main(runtime: Any) -> None:
        assert await runtime.run(react, 3) == "eight"
        dropped.extend(runtime.observers.dropped)

    rig.main(main)
    assert [str(error) for _, error in dropped] == ["full"]
