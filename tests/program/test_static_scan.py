"""What a program names is made ready; what it does with it is still its own."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel

from agentrt import Chat, chat, program, tool
from agentrt.program.output import calls_of, items_of, step_of, value_of
from agentrt.program.static_scan import scan_program

ASK = chat(system="Be brief.")
Mood = Literal["good", "bad"]
LIMIT = 3


class Answer(BaseModel):
    text: str


@dataclass
class Point:
    x: int


class Side(Enum):
    LEFT = "left"


@tool(effects="pure")
def look(table: dict[str, int], symbol: str) -> int:
    """The value of a symbol."""
    return table[symbol]


@tool(effects="pure")
def add(x: int, y: int) -> int:
    """The sum."""
    return x + y


BOTH = (add, look)


async def conclude(ask: Chat) -> Answer:
    return await ask.generate(Answer)


@program
async def plans(question: str) -> Answer:
    table = {"A": LIMIT}
    plan = ASK.user(question).calls(*(one.bind(table=table) for one in (look,)), name="plan")
    facts = [call.start() async for call in plan]
    return await conclude(plan.ctx.results(facts))


@program
async def loops(question: str) -> Any:
    side = await ASK.user(question).generate(Side)
    return await ASK.user(str(side)).step(tools=BOTH, final=Point)


@program
async def lists(question: str) -> list[Point]:
    return [point async for point in ASK.user(question).each(Point)]


@program
async def free(question: str) -> str:
    return await ASK.user(question).generate()


def test_types_and_bound_tools_are_foreseen_with_the_functions_that_a_program_calls() -> None:
    found = scan_program(plans)
    bound = look.bind(table={})
    assert found.toolsets == ((bound.spec.schema,),)
    assert calls_of((bound,)).constraint in found.constraints
    assert value_of(Answer).constraint in found.constraints
    assert found.chats == (ASK,)


def test_each_way_to_ask_has_its_own_constraint() -> None:
    found = scan_program(loops).constraints
    assert step_of(BOTH, Point).constraint in found
    assert value_of(Side).constraint in found
    assert calls_of(BOTH).constraint not in found
    assert scan_program(lists).constraints == (items_of(Point).constraint,)


def test_free_text_needs_nothing() -> None:
    found = scan_program(free)
    assert not found.constraints
    assert not found.toolsets


def test_variables_around_a_program_and_types_that_are_none() -> None:
    class Broken(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        what: object

    def made(form: Any, held: Any) -> Any:
        @program
        async def inner(question: str) -> Any:
            await ASK.user(question).generate(Mood)
            await ASK.user(question).generate(Broken)
            return held, await ASK.user(question).generate(form)

        return inner

    found = scan_program(made(Point, None)).constraints
    assert value_of(Point).constraint in found
    assert value_of(Mood).constraint in found
