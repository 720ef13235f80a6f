"""Hints and sharing change when things are computed, never what: the real engine, too little room.

Programs drawn by chance run on two runtimes, one that says everything it knows of prefixes and
computes like generations once, one that does neither. Engines have a few pages, so that prefixes
come and go all the time, some of them to slower memory.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import anyio.from_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt import chat, gather, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.ids import RunId
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.prompt import Codec
from agentrt.protocol.backend import PrefixHint
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing.tiny_model import tiny_engine

pytestmark = pytest.mark.model
ASK = chat(system="Be brief, and tell only what was asked for, in plain words. " * 4)
WORDS = ("Why is the sky blue? ", "Which returned more, and by how much? ", "And what follows? ")
RUN = RunOptions(run_id=RunId("0123456789abcdef"), seed=11)


@tool(effects="read")
async def nap(milliseconds: int) -> str:
    """Sleeps."""
    await anyio.sleep(milliseconds / 1000)
    return f"slept {milliseconds}"


class Chance:
    """A talk that forks, waits for tools, goes on before they end, and forgets branches."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    async def talk(self, talk: Any, depth: int) -> list[str]:
        random = self.random
        told: list[str] = []
        for _ in range(random.randint(1, 3)):
            form = random.randrange(5)
            question = talk.user(random.choice(WORDS) * random.randint(1, 6))
            if form == 0:  # a tool while nobody goes on yet
                answer = self.ask(question)
                told.append(await answer)
                found = await nap(random.randint(0, 8))
                talk = answer.ctx.user(found)
            elif form == 1:  # what follows is there before the tool has ended
                answer = self.ask(question)
                talk = answer.ctx.user("Data: ", nap(random.randint(0, 8)))
            elif form == 2:  # the same thing several times, and another thing
                same = [self.ask(question) for _ in range(random.randint(2, 4))]
                told += await gather(*same)
            elif form == 3 and depth < 2:  # a branch that is forgotten
                told += await self.talk(question, depth + 1)
            else:
                answer = self.ask(question)
                told.append(await answer)
                talk = answer.ctx
        return told

    def ask(self, question: Any) -> Any:
        random = self.random
        sampling: dict[str, Any] = {"temperature": 3.0, "seed": random.randrange(3)}
        if random.random() < 0.5:
            sampling = {}
        return question.generate(max_tokens=random.choice([3, 17, 40]), **sampling)


@program
async def drawn(seed: int) -> list[str]:
    return await Chance(seed).talk(ASK, 0)


class Listening(EmbeddedBackend):
    """Counts what it is told."""

    hints: dict[str, int]

    def hint(self, hint: PrefixHint) -> None:
        self.hints[hint.hint] = self.hints.get(hint.hint, 0) + 1
        super().hint(hint)


class Pair:
    """Two runtimes, by whether they say and share anything."""

    def __init__(self, portal: Any, runtimes: dict[bool, Runtime]) -> None:
        self.portal = portal
        self.runtimes = runtimes

    def play(self, seed: int, *, says: bool) -> list[str]:
        runtime = self.runtimes[says].with_options(RUN)
        found: list[str] = self.portal.call(runtime.run, drawn, seed)
        return found


@asynccontextmanager
async def opened(config: EngineConfig, hints: dict[str, int]) -> AsyncIterator[dict[bool, Runtime]]:
    codec, clock = Codec.load(config.model_path), MonotonicClock()
    async with AsyncExitStack() as stack:
        runtimes: dict[bool, Runtime] = {}
        for says in (True, False):
            backend = Listening(config, clock, place="thread")
            backend.hints = hints if says else {}
            runtimes[says] = await stack.enter_async_context(
                Runtime(
                    {"default": (backend, codec)},
                    clock=clock,
                    scheduler=SchedulerConfig(retention=says, share_nodes=says),
                )
            )
        yield runtimes


@pytest.fixture(scope="module", params=[0, 400_000], ids=["device", "host"])
def pair(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    tiny = tiny_engine(tmp_path_factory.mktemp("tiny"))
    config = replace(tiny, kv_pages=48, host_kv_bytes=request.param)
    hints: dict[str, int] = {}
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(config, hints)) as runtimes,
    ):
        yield Pair(portal, runtimes)
    assert hints["keep"] > 0
    assert hints["drop"] > 0


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**6))
def test_outputs_are_the_same_with_and_without(pair: Pair, seed: int) -> None:
    assert pair.play(seed, says=True) == pair.play(seed, says=False)


@pytest.mark.parametrize("says", [True, False])
def test_who_waits_for_a_tool_finds_its_prefix_again(pair: Pair, says: bool) -> None:
    """Others come and go meanwhile, more of them than there is room for."""

    @tool(effects="read")
    async def waits_for_others() -> str:
        for number in range(6):
            await pair.runtimes[says].run(passes_by, number)
        return "done"

    @program
    async def passes_by(number: int) -> str:
        return await chat().user(f"{number} passes by. " * 20).generate(max_tokens=4)

    @program
    async def waits() -> tuple[int, int]:
        first = ASK.user(WORDS[0] * 20).generate(max_tokens=8)
        await first
        second = first.ctx.user(await waits_for_others()).generate(max_tokens=4)
        await second
        ledger = second.meta.ledger
        return ledger.cached_tokens - ledger.cached_host_tokens, ledger.prompt_tokens

    cached, prompt = pair.portal.call(pair.runtimes[says].run, waits)
    if says:
        assert cached >= prompt - 48, "all but what is new"
    else:
        assert cached < prompt / 2, "the least recently used went first"
