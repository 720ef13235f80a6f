"""Typed outputs of a real model behind servers that take no more than hosted APIs document."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt import Calls, Final, chat, choice, program, tool
from agentrt.app import open_runtime
from tests.remote.fronts import FRONTS, KEY, front_engine

ASK = chat(system="Be brief.").user("Well?")
Digit = Literal[1, 2, 3]
Small = Annotated[int, Field(ge=1, le=9)]


class Box(BaseModel):
    size: Digit
    colour: Literal["red", "blue"] = "red"
    lid: bool | None = None


@tool(effects="pure")
def double(x: Digit) -> int:
    """Twice x."""
    return 2 * x


OUTPUTS: dict[str, tuple[Any, Any]] = {
    "a Literal": (Literal["yes", "no"], str),
    "a choice": (choice("a", "b"), str),
    "digits": (Digit, int),
    "a bool": (bool, bool),
    "a default": (Box, Box),
    "a union": (Box | Digit, (Box, int)),
}
BOUNDED: dict[str, tuple[Any, Any]] = {
    "an int": (Small, int),
    "a list": (Annotated[list[Small], Field(min_length=1, max_length=3)], list),
}
FACES = ("tiny-openai", "tiny-azure", "tiny-tools")
UNBOUNDED = ("tiny-azure", "tiny-messages")


@pytest.fixture(scope="module", params=(*FACES, *FRONTS))
def run(request, portal, server_url):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FRONT_KEY", KEY)
        opened = (
            open_runtime(engine=front_engine(server_url, request.param))
            if request.param in FRONTS
            else open_runtime(engine=server_url, remote_model=request.param)
        )
        with portal.wrap_async_context_manager(opened) as runtime:
            yield lambda program: portal.call(runtime.run, program)


@pytest.mark.parametrize("name", [*OUTPUTS, *BOUNDED])
def test_an_output_is_of_its_type(run, name, request):
    if name in BOUNDED and any(face in request.node.name for face in UNBOUNDED):
        pytest.skip("bounds are only checked there, and noise does not keep to them")
    form, kind = (OUTPUTS | BOUNDED)[name]

    @program
    async def output() -> Any:
        return await ASK.generate(form, max_tokens=200, temperature=1.0, on_limit="close")

    assert isinstance(run(output), kind)


def test_a_plan_is_of_its_tools(run):
    @program
    async def plan() -> Any:
        made = ASK.calls(double, max_tokens=400, max_calls=2, on_limit="close")
        return [call.tool.name async for call in made]

    assert set(run(plan)) == {"double"}


def test_a_step_is_calls_or_an_answer(run, request):
    if "tiny-tools" in request.node.name:
        pytest.skip("noise is no call: its model has to be asked for one")

    @program
    async def step() -> Any:
        return await ASK.step(tools=[double], final=Box, max_tokens=400, on_limit="close")

    found = run(step)
    assert isinstance(found, Calls) or (isinstance(found, Final) and isinstance(found.value, Box))
