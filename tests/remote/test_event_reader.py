"""A backend of several engines of which one cannot be read: its runs end by one error."""

import pytest

from agentrt import InternalError, chat, program
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import StepDone
from agentrt.remote.event_reader import read_into
from agentrt.remote.fallback_backend import FallbackBackend
from agentrt.runtime import Runtime
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual


class BrokenStream(ScriptedBackend):
    """An engine whose events cannot be read."""

    async def events(self):
        async for _ in super().events():
            raise TypeError("no order between these")
        yield StepDone(None, (), ())


@program
async def job() -> str:
    return await chat().user("Hi.").generate(max_tokens=8)


def test_a_run_does_not_wait_for_events_that_nobody_reads():
    async def main():
        clock = LoopClock()
        engine = BrokenStream(lambda request, prompt: "yes", clock=clock)
        backend = FallbackBackend(engine, (), clock=clock, cooldown_s=1.0)
        async with Runtime({"default": (backend, None)}, clock=clock) as runtime:
            with pytest.raises(InternalError, match="TypeError: no order between these") as caught:
                await runtime.run(job)
            return caught.value

    error = run_virtual(main)
    assert "an engine behind a fallback" in str(error)


def test_events_that_came_before_are_handed_on():
    queue, event = EventQueue(), StepDone(None, (), ())

    async def reading():
        queue.put(event)
        raise ValueError("x")

    async def main():
        await read_into(queue, reading(), "an engine")
        queue.put(event)  # nobody reads it any more
        stream = queue.read()
        first = await anext(stream)
        with pytest.raises(InternalError, match="reading from an engine failed: ValueError: x"):
            await anext(stream)
        return first

    assert run_virtual(main) is event
