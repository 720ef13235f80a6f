"""The language over a remote engine: what a program may rely on there, and what it is told.

The engine at the other end is a real one in another process; what it says is noise, but every
constraint that it declared holds, and what it does not declare is an error.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt import CheckFailed, Truncated, chat, gather, program, tool
from agentrt.app import open_runtime
from agentrt.protocol.events import Event, NodeFinished

ASK = chat(system="Be brief.")


class Verdict(BaseModel):
    colour: Literal["red", "blue"]
    sure: bool


@tool(effects="pure")
def double(x: Annotated[int, Field(ge=0, le=99)]) -> int:
    """Twice x."""
    return 2 * x


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events


@program
async def outputs() -> list[Any]:
    c = ASK.user("Say something.")
    return list(
        await gather(
            c.generate(max_tokens=12),
            c.generate(Literal["yes", "no"]),
            c.generate(Verdict, max_tokens=80),
        )
    )


@program
async def one_word() -> str:
    return await ASK.user("Yes or no?").generate(Literal["yes", "no"], max_tokens=12)


@program
async def planned() -> tuple[int, int]:
    """Calls are chosen by the engine, run here, and their results go back in its own messages."""
    plan = ASK.user("Double some numbers.").calls(double, max_tokens=1500)
    started = [call.start() async for call in plan]
    results = [await node for node in started]
    answer = plan.ctx.results(started).user("Now?").generate(Literal["done", "more"])
    assert await answer in ("done", "more")
    return len(results), sum(results)


@program
async def waits_for_a_value() -> str:
    first = ASK.user("First.").generate(Literal["one", "two"])
    return await ASK.user("You said ", first, ".").generate(max_tokens=6)


@pytest.fixture(scope="module")
def remote(portal, server_url):
    recorder = Recorder()
    opened = open_runtime(engine=server_url, remote_model="tiny", observers=[recorder])
    with portal.wrap_async_context_manager(opened) as runtime:
        yield lambda program: portal.call(runtime.run, program), recorder


def test_outputs_are_of_their_types(remote):
    run, _ = remote
    text, word, verdict = run(outputs)
    assert isinstance(text, str)
    assert word in ("yes", "no")
    assert isinstance(verdict, Verdict)


def test_calls_run_here_and_results_go_back(remote):
    run, _ = remote
    count, total = run(planned)
    assert 1 <= count <= 8  # the most that the server takes
    assert total % 2 == 0


def test_a_prompt_that_waits_for_a_value_is_sent_when_it_is_there(remote):
    run, recorder = remote
    recorder.events.clear()
    run(waits_for_a_value)
    finished = [event for event in recorder.events if isinstance(event, NodeFinished)]
    assert {event.outcome for event in finished} == {"ok"}


def test_a_server_that_enforces_nothing_is_asked_and_checked(portal, server_url):
    """Its noise is no answer: that is found each time, and ends in an error of the output."""

    async def main():
        opened = open_runtime(engine=server_url, remote_model="tiny-plain")
        async with opened as runtime:
            with pytest.raises((CheckFailed, Truncated)):
                await runtime.run(one_word)

    portal.call(main)
