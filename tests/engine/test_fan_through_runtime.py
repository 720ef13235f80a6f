"""Many samples of one chat, asked through the runtime, cost the forwards of one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import chat, fan, gather, program
from agentrt.app import open_runtime
from agentrt.engine.core import EngineCore
from agentrt.engine.process import main
from agentrt.runtime import Runtime
from agentrt.testing import tiny_engine

SAMPLES = 9
NEW_TOKENS = 20
ASK = chat(system="Be brief.").user("Name a number that nobody else would name.")
Opened = Callable[[], Any]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    """A runtime over a thread's engine, and that engine's core, to count its forwards."""
    cores: list[EngineCore] = []
    load = main.load_core

    def keep(*given: Any) -> Any:
        cores.append(load(*given))  # type: ignore[arg-type]
        return cores[-1]

    @asynccontextmanager
    async def use() -> AsyncIterator[tuple[Runtime, EngineCore]]:
        async with open_runtime(engine=tiny_engine(tmp_path / "tiny"), place="thread") as runtime:
            yield runtime, cores[0]

    monkeypatch.setattr(main, "load_core", keep)
    return use


@program
async def sampled() -> list[str]:
    """Nine samples of one chat."""
    return list(
        await gather(
            *(ASK.generate(temperature=2.0, max_tokens=NEW_TOKENS) for _ in range(SAMPLES))
        )
    )


@program
async def fanned() -> list[str]:
    """The same with `fan`."""

    def sample(_: int) -> Any:
        return ASK.generate(temperature=2.0, max_tokens=NEW_TOKENS)

    return list(await gather(*fan(sample, range(SAMPLES))))


@pytest.mark.parametrize("program", [sampled, fanned])
def test_nine_samples_take_two_forwards_more_than_their_tokens(opened: Opened, program: Any):
    async def main() -> tuple[int, list[str]]:
        async with opened() as (runtime, core):
            before = core.forwards
            answers = await runtime.run(program)
            return core.forwards - before, answers

    forwards, answers = anyio.run(main)
    assert len(set(answers)) > 1
    assert NEW_TOKENS <= forwards <= NEW_TOKENS + 2
