"""thinking=N: thought is told apart from the answer, whatever that is and however it comes."""

import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agentrt import Calls, Final, Truncated, chat, embedded, program, tool
from agentrt.base.segments import PLAIN_THINK_FRAME, ThinkFrame
from agentrt.prompt import Codec
from agentrt.runtime import Runtime
from agentrt.runtime.in_flight.reasoning_text import ReasoningText
from agentrt.testing import LoopClock, Reply, ScriptedBackend, run_virtual

ASK = chat(system="Be brief.").user("Well?")


class Point(BaseModel):
    x: int


@tool(effects="pure")
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def replies(*answers: Any) -> Any:
    left = list(answers)

    def answer(request: Any, prompt: str) -> Reply:
        return Reply(left.pop(0), thinking="Hm, let me see.")

    return answer


@pytest.fixture(params=["codec", "bytes"])
def spelling(request: pytest.FixtureRequest, codec: Codec) -> Codec | None:
    return codec if request.param == "codec" else None


def test_the_value_is_without_its_thought(bench: Any, spelling: Codec | None) -> None:
    @program
    async def thinks() -> list[Any]:
        gen = ASK.generate(Point, thinking=50, max_tokens=120)
        free = ASK.generate(thinking=50, max_tokens=120)
        choice = ASK.generate(Literal["yes", "no"], thinking=50, max_tokens=120)
        values: list[Any] = [await gen, await free, await choice]
        for one in (gen, free, choice):
            assert one.thinking == "Hm, let me see."
            assert one.written.generated.thinking.endswith("</think>\n\n")
        assert gen.text == '{"x":1}'
        assert [piece async for piece in gen.stream()] == ['{"x":1}']
        partials = [partial async for partial in gen.partials()]
        assert partials[-1].data == {"x": 1}
        return values

    rig = bench(replies('{"x":1}', "I say so.", "no"), codec=spelling)
    assert rig.run(thinks) == [Point(x=1), "I say so.", "no"]
    assert all(request.thinking_tokens == 50 for request in rig.backend.seen.requests)


def test_items_and_calls_close_behind_a_thought(bench: Any, spelling: Codec | None) -> None:
    frame = (spelling.call_frame if spelling is not None else None) or None

    @program
    async def streams() -> list[Any]:
        seen: list[Any] = []
        each = ASK.each(int, thinking=20, max_tokens=200)
        seen += [(item, each.done) async for item in each]
        plan = ASK.calls(look, thinking=20, max_tokens=200)
        seen += [call.arguments async for call in plan]
        assert plan.thinking == each.thinking == "Hm, let me see."
        match await ASK.step(tools=[look], final=Point, thinking=20, max_tokens=200):
            case Calls() as turn:
                seen.append(turn.calls[0].arguments)
                after = turn.run()
        match await after.step(tools=[look], final=Point, thinking=20, max_tokens=200):
            case Final(value):
                seen.append(value)
        return seen

    def call(at: str) -> str:
        if frame is None:
            return f'[{{"name":"look","arguments":{{"at":"{at}"}}}}]'
        inner = f'{frame.before}look{frame.middle}{{"at":"{at}"}}{frame.after}'
        return frame.first + inner + frame.last

    rig = bench(replies("[1,22]", call("a"), call("b"), '{"x":3}'), codec=spelling)
    assert rig.run(streams) == [
        (1, False),
        (22, True),
        {"at": "a"},
        {"at": "b"},
        Point(x=3),
    ]


def test_thought_is_cut_where_its_tokens_are_used_up(bench: Any) -> None:
    @program
    async def brief() -> str:
        gen = ASK.generate(Point, thinking=6, max_tokens=60)
        await gen
        return gen.thinking

    assert bench(replies('{"x":1}')).run(brief) == "Hm, le"


def test_no_thought_at_all(bench: Any) -> None:
    @program
    async def at_once() -> tuple[str, str]:
        gen = ASK.generate(thinking=0, max_tokens=60)
        return await gen, gen.thinking

    assert bench(replies("Yes.")).run(at_once) == ("Yes.", "")


def test_the_chat_goes_on_with_all_ids_where_the_template_keeps_them(
    bench: Any, codec: Codec
) -> None:
    @program
    async def goes_on() -> str:
        first = ASK.generate(thinking=50, max_tokens=120)
        return await first.ctx.user("Sure?").generate(max_tokens=20)

    rig = bench(replies("Four.", "Yes."), codec=codec)
    assert rig.run(goes_on) == "Yes."
    first, second = rig.backend.seen.requests
    assert second.prompt.token_ids[: len(first.prompt.token_ids)] == first.prompt.token_ids
    assert "Hm, let me see." in list(rig.backend.seen.prompts.values())[1]


@pytest.fixture
def other_codec(tmp_path: Path) -> Codec:
    """The same tokenizer under another template: ids are not shared."""
    for file in Path(embedded.path()).iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, tmp_path)
    template = tmp_path / "chat_template.jinja"
    template.write_text(template.read_text("utf-8") + "{#- another -#}", "utf-8")
    return Codec.load(tmp_path)


@pytest.mark.parametrize("spells", [True, False])
def test_another_model_is_told_the_answer_only(
    codec: Codec, other_codec: Codec, spells: bool
) -> None:
    clock = LoopClock()
    theirs = other_codec if spells else None
    one = ScriptedBackend(replies("Four."), clock=clock, codec=codec)
    other = ScriptedBackend(replies("Yes."), clock=clock, codec=theirs)

    @program
    async def handed_on() -> str:
        first = ASK.generate(thinking=50, max_tokens=120)
        return await first.ctx.user("Sure?").generate(max_tokens=20, model="other")

    async def main() -> str:
        engines: dict[str, Any] = {"default": (one, codec), "other": (other, theirs)}
        async with Runtime(engines, clock=clock) as runtime:
            answer: str = await runtime.run(handed_on)
            return answer

    assert run_virtual(main) == "Yes."
    [prompt] = other.seen.prompts.values()
    assert "Four." in prompt
    assert "Hm, let me see." not in prompt
    assert "<think>" not in prompt


def test_a_limit_within_the_answer_tells_of_the_answer(bench: Any) -> None:
    @program
    async def cut() -> Point:
        return await ASK.generate(Point, thinking=20, max_tokens=42)

    rig = bench(lambda request, prompt: Reply('{"x":1}', thinking="x" * 20))
    with pytest.raises(Truncated) as raised:
        rig.run(cut)
    assert raised.value.partial_text == '{"x'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("frame", "text", "thought", "answer"),
    [
        (PLAIN_THINK_FRAME, "<think>\nhm\n</think>\n\n4", "hm\n", "4"),
        (PLAIN_THINK_FRAME, "<think>\n</think>\n\n\n 4", "", "\n 4"),
        (PLAIN_THINK_FRAME, "<think>\na</thin b </think>\n\n</think>", "a</thin b ", "</think>"),
        (PLAIN_THINK_FRAME, "<think>\nhm</thi", "hm</thi", ""),
        (PLAIN_THINK_FRAME, "<thi", "<thi", ""),
        (PLAIN_THINK_FRAME, "<think>\nhm</think>\n", "hm", ""),
        (ThinkFrame("<think>", "</think>", "</think>", opened=True), "hm</think>4", "hm", "4"),
        (ThinkFrame("", "[/T]", "[/T]"), "hm[/T]4", "hm", "4"),
    ],
)
def test_thought_and_answer_are_cut_alike_however_they_arrive(
    frame: ThinkFrame, text: str, thought: str, answer: str, size: int
) -> None:
    reader, told = ReasoningText(frame), ["", ""]
    parts = [reader.push(text[at : at + size]) for at in range(0, len(text), size)]
    for part in [*parts, reader.flush()]:
        told = [told[0] + part.thought, told[1] + part.answer]
    assert told == [thought, answer]
