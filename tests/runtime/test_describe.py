"""What a prompt tells of the type when the author asks for it, and what it leaves alone."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from agentrt import Calls, Final, chat, choice, json_schema, program, regex, tool
from agentrt.prompt import Codec


class Point(BaseModel):
    x: int = Field(ge=3, description="How far right")


TOLD = "{\n  x: integer,  // How far right; at least 3\n}"


@program
async def draws() -> list[str]:
    base = chat(system="Be brief.").user("Where?")
    point = base.generate(Point, describe=True, name="point", max_tokens=60)
    side = base.generate(Literal["left", "right"], describe=True, name="side", max_tokens=60)
    free = base.generate(describe=True, name="free", max_tokens=60)
    plain = base.generate(Point, name="plain", max_tokens=60)
    points = base.each(Point, describe=True, name="points", max_tokens=60)
    await points
    for gen in (point, side, free, plain):
        await gen
    [branch] = point.ctx.user("And then?").fork(names=["then"])
    await branch.generate(Point, describe=True, max_tokens=60)
    return [branch.label]


def answers(request: Any, prompt: str) -> str:
    if "JSON array" in prompt:
        return '[{"x":3}]'
    if "left, right" in prompt:
        return "left"
    return '{"x":4}'


def test_the_type_stands_at_the_end_of_the_users_message(bench: Any, codec: Codec) -> None:
    """Once, in its own message, and the branches share all that stands before it."""
    rig = bench(answers, codec=codec)
    assert rig.run(draws) == ["then"]
    prompts = list(rig.backend.seen.prompts.values())
    by_end = {
        f"Where?\nAnswer with JSON of this type:\n{TOLD}": 0,
        "Where?\nAnswer with one of: left, right": 0,
        f"Where?\nAnswer with a JSON array. Each item is of this type:\n{TOLD}": 0,
        f"And then?\nAnswer with JSON of this type:\n{TOLD}": 0,
        "Where?": 0,
    }
    for prompt in prompts:
        last = prompt.split("<|user|>")[-1].split("<|end|>")[0].strip()
        by_end[last] += 1
    assert list(by_end.values()) == [1, 1, 1, 1, 2]
    assert prompts[-1].count(TOLD) == 2, "what was told before the answer stays told"


@tool(effects="pure")
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@program
async def steps() -> Calls | Final[Point]:
    asked = chat().user("Double 3.").calls(double, name="plan", max_tokens=60)
    after = asked.ctx.results([call.start() async for call in asked])
    return await after.step(tools=[double], final=Point, describe=True, max_tokens=60)


def test_behind_results_the_type_is_told_in_a_message_of_its_own(bench: Any, codec: Codec) -> None:
    frame = codec.call_frame
    call = f'{frame.before}double{frame.middle}{{"x":3}}{frame.after}'
    rig = bench(lambda _, prompt: '{"x":6}' if "any more" in prompt else call, codec=codec)
    found = rig.run(steps)
    assert isinstance(found, Final)
    last = list(rig.backend.seen.prompts.values())[-1].split("<|user|>")[-1]
    assert last.startswith("When no tool is needed any more, answer with JSON of this type:")


def test_constraints_are_told_as_far_as_words_go() -> None:
    from agentrt.program.output_types import description_for

    schema = json_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert description_for(schema, "alone").endswith("{\n  a?: integer,\n}")
    assert description_for(regex("[a-c]+"), "alone") == "Answer with text that matches [a-c]+"
    assert description_for(choice(1, 2), "alone") == "Answer with one of: 1, 2"
    assert description_for(str, "alone") == ""
