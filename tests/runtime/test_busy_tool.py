"""A tool that keeps Python busy does not stop the tokens: the engine has its own process."""

import threading
from collections.abc import Sequence

import anyio
import pytest

from agentrt import chat, program, tool
from agentrt.app import open_runtime
from agentrt.protocol.events import Event, ToolEnded, ToolStarted
from agentrt.protocol.step_output import StepDone

ASK = chat(system="Solve step by step.")
TOKENS = 60


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events


@pytest.mark.model
def test_tokens_arrive_while_a_tool_computes() -> None:
    """The tool computes until the answer is whole: if it starved the engine, this would not end."""
    answered = threading.Event()

    @tool(effects="pure")
    def busy() -> int:
        """Computes without a pause, in Python, until it is told to stop."""
        rounds = 0
        while not answered.is_set():
            sum(i * i for i in range(1000))
            rounds += 1
        return rounds

    @program(deadline=120.0)
    async def both() -> tuple[str, int]:
        node = busy()
        try:
            # Several at a high temperature: one may end at once, hardly all.
            gens = [ASK.user("x").generate(temperature=8.0, max_tokens=TOKENS) for _ in range(4)]
            text = "".join([await gen for gen in gens])
        finally:
            answered.set()
        return text, await node

    recorder = Recorder()

    async def main() -> tuple[str, int]:
        async with open_runtime(observers=[recorder]) as runtime:
            return await runtime.run(both)

    text, rounds = anyio.run(main)
    assert text
    assert rounds > 0
    kinds = [type(event) for event in recorder.events]
    began, ended = kinds.index(ToolStarted), kinds.index(ToolEnded)
    steps = [e for e in recorder.events[began:ended] if isinstance(e, StepDone) and e.deltas]
    assert len(steps) > 10, "steps were delivered while the tool was computing"
