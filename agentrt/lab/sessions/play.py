"""Plays of sessions: one agent at a time, or agents that arrive at a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

import anyio

from agentrt.base.record import record
from agentrt.lab.progress import WorkPace
from agentrt.lab.sessions.ideal import TokenTree
from agentrt.lab.sessions.prompt_reader import PromptReader
from agentrt.lab.sessions.samples import AgentSample, TurnSample, Watch
from agentrt.lab.workloads.agent_session import AgentSession, AgentTurn


class SessionArm(Protocol):
    """An engine that plays sessions."""

    async def play(self, session: AgentSession, watch: Watch) -> AgentSample:
        """Play a session from now on; a failure ends it and stands in its sample."""
        ...


@record
class SessionPlay:
    """Sessions as they were played.

    Attributes:
        rate: Agents that arrived a second; 0 for one at a time.
        agents: Agents in the order of their arrivals.
        turns: Turns that they had to play, those of subagents among them.
    """

    rate: float
    agents: tuple[AgentSample, ...]
    turns: int

    def samples(self) -> list[TurnSample]:
        """The turns of all agents in the order in which they began."""
        found = (turn for agent in self.agents for turn in agent.turns)
        return sorted(found, key=lambda turn: turn.began_s)


async def play_one_by_one(arm: SessionArm, sessions: Sequence[AgentSession]) -> SessionPlay:
    """Play sessions one after the other."""
    watch = Watch()
    agents: list[AgentSample] = []
    pace = WorkPace("agents", len(sessions))
    for session in sessions:
        agent = await arm.play(session, watch)
        agents.append(agent)
        took_s = agent.ended_s - agent.arrived_s
        text = f"{session.name}: {len(agent.turns)} turns in {took_s:.1f} s {agent.error}".rstrip()
        pace.done(text)
    return SessionPlay(0.0, tuple(agents), _turns_in(sessions))


async def play_arriving(
    arm: SessionArm, sessions: Sequence[AgentSession], rate: float, random: Random
) -> SessionPlay:
    """Play sessions that arrive independently of each other.

    Args:
        arm: The engine.
        sessions: Sessions in the order of their arrivals.
        rate: Agents a second, on average.
        random: Source of the gaps between arrivals; the first agent comes at once.
    """
    due_s = [0.0]
    for _ in sessions[1:]:
        due_s.append(due_s[-1] + random.expovariate(rate))
    found: dict[int, AgentSample] = {}
    watch = Watch()
    pace = WorkPace("agents", len(sessions))

    async def one(at: int) -> None:
        await anyio.sleep(max(0.0, due_s[at] - watch.now_s()))
        # Latency counts from the arrival that was due, whenever the loop came to it.
        found[at] = replace(await arm.play(sessions[at], watch), arrived_s=due_s[at])
        pace.done()

    async with anyio.create_task_group() as tasks:
        for at in range(len(sessions)):
            tasks.start_soon(one, at)
    agents = tuple(found[at] for at in range(len(sessions)))
    return SessionPlay(rate, agents, _turns_in(sessions))


def with_ideal(
    play: SessionPlay, sessions: Sequence[AgentSession], reader: PromptReader, tree: TokenTree
) -> SessionPlay:
    """The play, with the tokens of each prompt that a cache finds which never forgets.

    Args:
        play: The play.
        sessions: Sessions of the play, each with a name of its own.
        reader: Reads prompts as ids.
        tree: Every prompt that the same engine was sent before; those of the play are added.
    """
    prompts = {
        (one.name, number): turn for one in _all(sessions) for number, turn in enumerate(one.turns)
    }
    ideal: dict[tuple[str, int], int | None] = {}
    for sample in play.samples():
        key = (sample.session, sample.turn)
        ideal[key] = _ideal(sample, prompts[key], reader, tree)
    agents = tuple(
        replace(
            agent,
            turns=tuple(
                replace(turn, ideal_tokens=ideal[turn.session, turn.turn]) for turn in agent.turns
            ),
        )
        for agent in play.agents
    )
    return replace(play, agents=agents)


def _ideal(
    sample: TurnSample, turn: AgentTurn, reader: PromptReader, tree: TokenTree
) -> int | None:
    ids = reader.ids(turn)
    shared = tree.add(ids)
    if reader.counts_tokens:
        return shared
    return None if sample.prompt_tokens is None else sample.prompt_tokens * shared // len(ids)


def _all(sessions: Sequence[AgentSession]) -> list[AgentSession]:
    """Sessions, and those of their subagents."""
    found = list(sessions)
    for session in sessions:
        for turn in session.turns:
            found += _all(turn.subagents)
    return found


def _turns_in(sessions: Sequence[AgentSession]) -> int:
    return sum(1 for session in sessions for _ in session.all_turns())
