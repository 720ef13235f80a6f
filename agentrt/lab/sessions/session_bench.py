"""The plays of one engine: one agent at a time, then loads at rising rates of arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from random import Random
from statistics import fmean
from typing import Any

import typer
from anyio import to_thread

from agentrt.lab.errors import BenchFailed
from agentrt.lab.sessions.arms import OpenArm
from agentrt.lab.sessions.figures import figures, slo_point
from agentrt.lab.sessions.flags import SessionFlags
from agentrt.lab.sessions.ideal import TokenTree
from agentrt.lab.sessions.lines import play_line, sustained_line, turn_lines
from agentrt.lab.sessions.play import (
    SessionArm,
    SessionPlay,
    play_arriving,
    play_one_by_one,
    with_ideal,
)
from agentrt.lab.sessions.prompt_reader import PromptReader
from agentrt.lab.sessions.slo import Slo, Sustained, next_rate, sustained
from agentrt.lab.sessions.source import SessionSource
from agentrt.lab.workloads.agent_session import AgentSession

Json = dict[str, Any]


class SessionBench:
    """The plays of one engine.

    Args:
        flags: Flags of the command.
        source: Sessions.
        reader: Reads prompts as the engine does.
        slo: The SLO.
        rates: Rates of arrival; None searches, () plays one agent at a time only.
    """

    def __init__(
        self,
        flags: SessionFlags,
        source: SessionSource,
        reader: PromptReader,
        slo: Slo,
        rates: tuple[float, ...] | None,
    ) -> None:
        self._flags = flags
        self._source = source
        self._reader = reader
        self._slo = slo
        self._rates = rates
        self._tree = TokenTree()
        self._next = 0
        self._plays: list[SessionPlay] = []

    async def run(
        self,
        engine: str,
        opening: Callable[[], AbstractAsyncContextManager[OpenArm]],
        keep: Callable[[Json], None],
    ) -> None:
        """Play on an engine.

        Args:
            engine: Name of the engine.
            opening: Opens it.
            keep: Keeps its settings and all plays so far, after each play: a load takes minutes,
                and a command that is ended keeps what it has measured.

        Raises:
            BenchFailed: The engine does not work.
        """

        async def played(play: SessionPlay, sessions: Sequence[AgentSession]) -> None:
            await self._played(engine, play, sessions)
            keep({"about": opened.about, **self.to_json()})

        async with opening() as opened:
            await self._warm_up(engine, opened.arm)
            sessions = self._take(len(self._source))
            play = await play_one_by_one(opened.arm, sessions)
            await played(play, sessions)
            alone_s = fmean(agent.ended_s - agent.arrived_s for agent in play.agents)
            while (rate := self._next_rate(1 / max(alone_s, 1e-9))) is not None:
                sessions = self._take(self._flags.agents)
                random = Random(f"arrivals {self._flags.seed}")
                play = await play_arriving(opened.arm, sessions, rate, random)
                await played(play, sessions)
            if self._rates != ():
                typer.echo(sustained_line(engine, self.sustained(), self._slo))

    async def _warm_up(self, engine: str, arm: SessionArm) -> None:
        """Ask for a turn that does not count: parts of an engine start with the first request."""
        session = self.session(0).salted("Warm-up.\n").shortened(most_turns=1, most_output_tokens=1)
        play = await play_one_by_one(arm, [session])
        for agent in play.agents:
            if agent.error:
                raise BenchFailed(f"{engine} does not answer: {agent.error}")
        await self._with_ideal(play, [session])

    def session(self, number: int) -> AgentSession:
        """The session of an agent, as it is to be played."""
        flags = self._flags
        session = self._source.session(number).shortened(flags.most_turns, flags.most_output)
        return session.waiting(flags.waits)

    def sustained(self) -> Sustained:
        """Agents sustained within the SLO."""
        return sustained([slo_point(play, self._slo) for play in self._plays], self._slo.share)

    def errors(self) -> list[str]:
        """Errors of all agents."""
        return [agent.error for play in self._plays for agent in play.agents if agent.error]

    def to_json(self) -> Json:
        """Figures, and every sample."""
        found: Json = {
            "plays": [
                {
                    "rate": play.rate,
                    "figures": figures(play, self._slo),
                    "agents": [asdict(agent) for agent in play.agents],
                }
                for play in self._plays
            ]
        }
        if self._rates != ():
            found["sustained"] = asdict(self.sustained())
        return found

    def _take(self, many: int) -> list[AgentSession]:
        """Sessions of agents that were not played yet, so that no cache holds them."""
        self._next += many
        return [self.session(number) for number in range(self._next - many, self._next)]

    def _next_rate(self, first: float) -> float | None:
        if self._rates is None:
            points = [slo_point(play, self._slo) for play in self._plays]
            return next_rate(points, self._slo.share, first)
        tried = len(self._plays) - 1
        return self._rates[tried] if tried < len(self._rates) else None

    async def _played(
        self, engine: str, play: SessionPlay, sessions: Sequence[AgentSession]
    ) -> None:
        play = await self._with_ideal(play, sessions)
        self._plays.append(play)
        found = figures(play, self._slo)
        typer.echo(play_line(engine, play.rate, found))
        for line in turn_lines(found) if not play.rate else ():
            typer.echo(line)

    async def _with_ideal(self, play: SessionPlay, sessions: Sequence[AgentSession]) -> SessionPlay:
        """The play beside the ideal. Prompts are encoded again, off the loop of the runtime."""
        return await to_thread.run_sync(with_ideal, play, sessions, self._reader, self._tree)
