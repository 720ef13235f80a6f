"""All arms of a run, opened: our runtime by one or more policies, and clients of servers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import shape_in
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.errors import UsageError
from agentrt.engine.process.child import environment
from agentrt.lab.arms.clients import client_arm, open_best
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.program_arm import CLIENTS, OURS, SERVERS, CompoundArm, OpenPlayer
from agentrt.lab.arms.server_process import ServerProcess
from agentrt.lab.arms.servers import Served, plans_of
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.prompt_parity import chats_in, check_reading
from agentrt.lab.bench.compound.server_efficiency import LEAST_SHARE, measure_reach
from agentrt.lab.bench.engine.points import PAGE_TOKENS
from agentrt.lab.checkpoints.shapes import is_large
from agentrt.lab.errors import BenchFailed
from agentrt.prompt import Codec

_FEW, _MANY = 8, 32  # requests at once, by which a server's reach is measured


@dataclass(frozen=True, slots=True)
class Wanted:
    """Arms as asked for.

    Attributes:
        names: As `--arms` takes them.
        policies: Of our own arm, by name; more than one make an arm each.
        served: What all of them serve.
        threads: Of our engine; 0 lets it choose.
        peers: Where `make peers` built what peers run on.
        quick: Take each server's first plan and do not measure its reach.
    """

    names: tuple[str, ...]
    policies: Mapping[str, SchedulerConfig]
    served: Served
    threads: int
    peers: Path
    quick: bool = False


@dataclass(slots=True)
class Opened:
    """Arms that run.

    Attributes:
        players: By name.
        choices: By kind of server, what its plans took in a probe.
        reaches: By kind of server, what it reaches of its engine's own rate.
    """

    players: dict[str, OpenPlayer] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)
    reaches: dict[str, Any] = field(default_factory=dict)


def check_names(names: Sequence[str]) -> None:
    """That every arm is one that there is.

    Raises:
        UsageError: One is not.
    """
    known = [OURS, *(f"{client}+{server}" for client in CLIENTS for server in SERVERS)]
    for name in names:
        if name not in known:
            raise UsageError(f"--arms {name} is not known", hint=f"Use some of {', '.join(known)}")
    if not names:
        raise UsageError("no arm is left", hint=f"Use some of {', '.join(known)}")


def open_all(
    wanted: Wanted,
    probe: Sequence[ProgramLine],
    stack: ExitStack,
    tell: Callable[[str], None],
) -> Opened:
    """Open every arm; `stack` closes them.

    Args:
        wanted: Which.
        probe: Programs that a server's plans are chosen by.
        stack: Closes what was opened.
        tell: Called with what is being done.

    Raises:
        BenchFailed: One does not work, or none is left.
    """
    opened = Opened()
    if OURS in wanted.names:
        for policy, scheduler in wanted.policies.items():
            arm = our_arm(wanted.served, scheduler, threads=wanted.threads)
            name = OURS if len(wanted.policies) == 1 else f"{OURS}:{policy}"
            tell(f"starting {name}")
            opened.players[name] = _opened(OpenPlayer(arm, None), stack)
    files = PeerFiles(wanted.peers, wanted.served.model)
    servers: dict[str, ServerProcess] = {}
    for name in wanted.names:
        client, _, kind = name.partition("+")
        if not kind:
            continue
        if kind not in servers:
            servers[kind] = _server(kind, wanted, probe, files, stack, opened, tell)
        arm = client_arm(client, servers[kind].plan, files)
        opened.players[name] = _opened(OpenPlayer(arm, servers[kind]), stack)
    _check_reaches(wanted, servers, files, opened, tell)
    if not opened.players:
        raise BenchFailed("no arm is left to measure", hint="Add agentrt to --arms")
    return opened


def our_arm(served: Served, scheduler: SchedulerConfig, *, threads: int) -> CompoundArm:
    """Our runtime, with as much memory as the servers have.

    Args:
        served: The model and the memory.
        scheduler: How its programs share the engine.
        threads: Of the engine; 0 lets it choose.
    """
    engine = {
        "model_path": str(served.model),
        "dtype": served.dtype,
        "kv_pages": served.kv_tokens // PAGE_TOKENS,
        "threads": threads,
        "policy": scheduler.policy,
    }
    config = EngineConfig(**{**engine, "model_path": served.model})  # type: ignore[arg-type]
    return CompoundArm(
        client=OURS,
        server="",
        command=(sys.executable, "-P", "-m", "agentrt.lab.arms.runtime_arm"),
        settings={"engine": engine, "scheduler": asdict(scheduler)},
        env=environment(config, os.environ) if threads else {},
    )


def _opened(player: OpenPlayer, stack: ExitStack) -> OpenPlayer:
    stack.callback(player.close)
    return player


def _server(
    kind: str,
    wanted: Wanted,
    probe: Sequence[ProgramLine],
    files: PeerFiles,
    stack: ExitStack,
    opened: Opened,
    tell: Callable[[str], None],
) -> ServerProcess:
    """The best server of a kind, which reads chats as we do."""
    plans = plans_of(kind, wanted.served, wanted.peers, cores=cores())
    kept = plans[:1] if wanted.quick else plans
    server, tried = open_best(kept, probe, files, tell=tell)
    stack.callback(server.close)
    opened.choices[kind] = {"kept": server.plan.variant, "tried": [asdict(one) for one in tried]}
    check_reading(server, Codec.load(wanted.served.model), chats_in(probe, 2))
    return server


def _check_reaches(
    wanted: Wanted,
    servers: Mapping[str, ServerProcess],
    files: PeerFiles,
    opened: Opened,
    tell: Callable[[str], None],
) -> None:
    """Leave out the arms of a server that is slower than its own engine.

    Ours is measured as well, and no reason to refuse: it is there to tell what our runtime adds.
    """
    if wanted.quick:
        return
    for kind, server in servers.items():
        names = [name for name in opened.players if name.endswith(f"+{kind}")]
        # A large model takes long for many at once, so that few of them are measured well.
        batch, repeats = (_FEW, 3) if is_large(shape_in(wanted.served.model)) else (_MANY, 5)
        batch = min(wanted.served.slots, batch)
        player = opened.players[names[0]]
        reach = measure_reach(
            player, server.plan, wanted.served, files, batch=batch, repeats=repeats
        )
        refused = kind != "ours" and not reach.holds
        opened.reaches[kind] = {**asdict(reach), "share": reach.share, "refused": refused}
        tell(f"{server.plan.name} reaches {reach.share:.0%} of its engine's own rate")
        if refused:
            tell(f"nothing is compared below {LEAST_SHARE:.0%}: left out {', '.join(names)}")
            for name in names:
                opened.players.pop(name).close()
