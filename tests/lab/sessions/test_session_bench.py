"""The plays of one engine are kept one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt.lab.sessions.arms import OpenArm
from agentrt.lab.sessions.flags import SessionFlags
from agentrt.lab.sessions.prompt_reader import LetterReader
from agentrt.lab.sessions.samples import AgentSample, TurnSample, Watch
from agentrt.lab.sessions.session_bench import SessionBench
from agentrt.lab.sessions.setup import session_setup
from agentrt.lab.sessions.slo import Slo
from agentrt.lab.workloads.agent_session import AgentSession
from tests.lab.sessions.made_wheel import made_wheel


class StoppingArm:
    """An engine that answers at once, until it stops in the middle of a load."""

    def __init__(self, last: int) -> None:
        self.left = last

    async def play(self, session: AgentSession, watch: Watch) -> AgentSample:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        now_s = watch.now_s()
        turns = (TurnSample(session.name, 0, now_s, now_s, now_s, 10, 0, 1, 1, ""),)
        return AgentSample(session.name, now_s, now_s + 1e-3, turns)


def test_a_play_that_is_broken_off_costs_none_before_it(tmp_path: Path) -> None:
    wheel = made_wheel(tmp_path / "made.whl")
    flags = SessionFlags("made-v1", "http://127.0.0.1/v1", agents=2, waits=0, wheel_path=wheel)
    source = session_setup(flags).source
    bench = SessionBench(flags, source, LetterReader(), Slo(5, 20), (100.0, 200.0))
    kept: list[Any] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[OpenArm]:
        yield OpenArm(StoppingArm(1 + len(source) + 2 + 1), {"engine": "scripted"})

    with pytest.raises(KeyboardInterrupt):
        anyio.run(bench.run, "scripted", opening, kept.append)
    assert [[play["rate"] for play in one["plays"]] for one in kept] == [[0.0], [0.0, 100.0]]
    assert kept[-1]["about"] == {"engine": "scripted"}
