"""The plain clients as arms, and which server each of them is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from agentrt.base.errors import UsageError
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.program_arm import CompoundArm, OpenPlayer
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.wire import ProgramLine

_SCRIPTS = {"asyncio": "asyncio_client.py", "langgraph": "langgraph_client.py"}


def client_arm(client: str, plan: ServerPlan, files: PeerFiles) -> CompoundArm:
    """A plain client of a server.

    Args:
        client: `asyncio` (which needs no peers, as httpx is ours as well) or `langgraph`.
        plan: Of the server.
        files: What peers run on.

    Raises:
        UsageError: There is no such client, or what it runs on was not made.
    """
    if client not in _SCRIPTS:
        raise UsageError(f"there is no client {client!r}", hint="asyncio or langgraph")
    files.check(client)
    python = files.python if files.python.exists() else sys.executable
    return CompoundArm(
        client=client,
        server=plan.kind,
        command=(str(python), str(files.script(_SCRIPTS[client]))),
        settings=plan.client_settings,
        env={"PYTHONDONTWRITEBYTECODE": "1", "OPENAI_API_KEY": "none"},
    )


@dataclass(frozen=True, slots=True)
class Tried:
    """A plan of a server, and how long a probe took on it.

    Attributes:
        variant: Of the plan.
        took_s: One figure a round.
    """

    variant: str
    took_s: tuple[float, ...]


def open_best(
    plans: Sequence[ServerPlan],
    programs: Sequence[ProgramLine],
    files: PeerFiles,
    *,
    repeats: int = 3,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[ServerProcess, tuple[Tried, ...]]:
    """Start every plan, play a probe on each in turn, and keep the quickest, halted.

    A first round counts for nothing: it warms all of them alike.

    Args:
        plans: Of one kind of server.
        programs: The probe.
        files: What peers run on.
        repeats: Rounds that count.
        tell: Called with what is being done.

    Raises:
        BenchFailed: One of them does not work.
    """
    servers: list[ServerProcess] = []
    players: list[OpenPlayer] = []
    kept: ServerProcess | None = None
    try:
        for plan in plans:
            tell(f"starting {plan.name}")
            servers.append(ServerProcess(plan))
            servers[-1].halt()
        if len(servers) == 1:
            kept = servers[0]
            return kept, ()
        arms = [client_arm("asyncio", plan, files) for plan in plans]
        for arm, server in zip(arms, servers, strict=True):
            players.append(OpenPlayer(arm, server))
        tried = _tried(plans, players, programs, repeats)
        best = min(range(len(plans)), key=lambda at: median(tried[at].took_s))
        kept = servers[best]
        tell(f"{plans[best].name} is the best of {len(plans)}")
        return kept, tried
    finally:
        for player in players:
            player.close()
        for server in servers:
            if server is not kept:
                server.close()


def _tried(
    plans: Sequence[ServerPlan],
    players: Sequence[OpenPlayer],
    programs: Sequence[ProgramLine],
    repeats: int,
) -> tuple[Tried, ...]:
    took: list[list[float]] = [[] for _ in players]
    for at_round in range(repeats + 1):
        for player, figures in zip(players, took, strict=True):
            told = player.play(programs)
            if at_round:
                figures.append(sum(one["ended_s"] - one["arrived_s"] for one in told))
    return tuple(
        Tried(plan.variant, tuple(figures)) for plan, figures in zip(plans, took, strict=True)
    )
