"""What is declared is begun at once, in what others leave: counted on the real engine."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import pytest

from agentrt import chat, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.prompt import Codec
from agentrt.protocol.events import Event, HoleFilled, NodeDemanded, NodeFinished, RequestSent
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime
from agentrt.testing.tiny_model import tiny_engine

pytestmark = pytest.mark.model
ASK = chat(system="Be brief.")
LONG = "A long beginning of a prompt that is known at once, and takes its time. " * 60
# Many times the steps that the long prompt needs beside them, also on a slow machine.
NOW_TOKENS = 400


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events

    def of(self, kind: type, name: str) -> Any:
        found: list[Any] = [e for e in self.events if isinstance(e, kind)]
        (one,) = [e for e in found if f"/{name}#" in e.node_id]
        return one

    def beside(self, name: str) -> list[int]:
        """Prefilled tokens of each step in which this node produced a token, but for its first."""
        request_id = self.of(RequestSent, name).request_id
        done = [e for e in self.events if isinstance(e, StepDone) and e.step is not None]
        steps = [e.step for e in done if any(d.request_id == request_id for d in e.deltas)]
        return [step.prefill_tokens for step in steps[1:] if step is not None]


@asynccontextmanager
async def opened(folder: Any, recorder: Recorder) -> AsyncIterator[Runtime]:
    clock, config = MonotonicClock(), tiny_engine(folder)
    backend = EmbeddedBackend(config, clock, place="thread")
    backends = {"default": (backend, Codec.load(folder))}
    async with Runtime(backends, clock=clock, observers=[recorder]) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    recorder = Recorder()
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            opened(tmp_path_factory.mktemp("tiny"), recorder)
        ) as runtime,
    ):

        def run(to_run: Any) -> Recorder:
            recorder.events.clear()
            portal.call(runtime.run, to_run)
            return recorder

        yield run


@pytest.fixture
def background_tokens() -> int:
    """Imported by a test that runs, since the engine's scheduler imports torch."""
    from agentrt.engine.scheduling.token_budget import BACKGROUND_TOKENS

    return BACKGROUND_TOKENS


@tool(effects="read")
async def held(gate: anyio.Event) -> str:
    """Waits until it is let go."""
    await gate.wait()
    return "let go"


def test_a_generation_that_nobody_awaits_yet_is_computed_in_slack(
    play: Any, background_tokens: int
) -> None:
    """It is there when it is asked for, and it made nobody's steps longer."""

    @program
    async def ahead() -> str:
        now = ASK.user("Now").generate(max_tokens=NOW_TOKENS, ignore_eos=True, name="now")
        async for _ in now.stream():
            break
        later = ASK.user(LONG).generate(max_tokens=4, ignore_eos=True, name="later")
        await now
        return await later

    seen = play(ahead)
    beside = seen.beside("now")
    assert sum(beside) >= 500, "the long prompt was computed meanwhile"
    assert max(beside) <= background_tokens
    wanted = [e.node_id for e in seen.events if isinstance(e, NodeDemanded)]
    assert not any("/later#" in node_id for node_id in wanted), "it was done before"
    finished = seen.of(NodeFinished, "later")
    assert finished.ledger.output_tokens == 4
    assert finished.at_s <= seen.of(NodeFinished, "now").at_s


def test_a_prompt_with_holes_is_computed_around_them(play: Any, background_tokens: int) -> None:
    gate: list[anyio.Event] = []

    @program
    async def around() -> str:
        gate.append(anyio.Event())
        ask = ASK.user(LONG, held(gate[0]), "\nWhat follows?")
        report = ask.generate(max_tokens=4, name="report")
        now = ASK.user("Now").generate(max_tokens=NOW_TOKENS, ignore_eos=True, name="now")
        await now
        gate[0].set()
        return await report

    seen = play(around)
    beside = seen.beside("now")
    assert max(beside) <= background_tokens
    ledger = seen.of(NodeFinished, "report").ledger
    filled_s = seen.of(HoleFilled, "report").at_s
    done = [e.step for e in seen.events if isinstance(e, StepDone) and e.step is not None]
    after = sum(step.prefill_tokens for step in done if step.started_at_s > filled_s)
    assert after <= 64 < ledger.prompt_tokens, "only what was not known before"
