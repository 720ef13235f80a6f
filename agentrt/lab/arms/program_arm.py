"""Arms that play whole programs: our runtime, and plain clients of a server.

Such an arm answers one question more than `open`:

    {"do": "play", "programs": [ProgramLine]} -> {"samples": [ProgramSample], "steps": [...]}

Each program begins `at_s` after the play does, all of them in one event loop; the answer comes when
the last has ended. `steps` has a `StepSample` for each step of the engine, if the client sees them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.engine.process.child import environment
from agentrt.lab.arms.arm_process import OURS, Arm, ArmProcess
from agentrt.lab.arms.engine_settings import config_of
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.play_options import PlayOptions
from agentrt.lab.arms.served import PAGE_TOKENS, Served
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.arms.wire import ProgramLine, ProgramSample
from agentrt.lab.errors import BenchFailed
from agentrt.lab.workloads.step_sample import StepSample

CLIENTS = {"asyncio": "asyncio_client.py", "langgraph": "langgraph_client.py"}


def runtime_arm(
    served: Served,
    scheduler: SchedulerConfig,
    *,
    threads: int,
    engine: Mapping[str, Any] | None = None,
    options: PlayOptions | None = None,
) -> Arm:
    """Our runtime, with as much KV memory as the servers have.

    Args:
        served: Model and memory.
        scheduler: How its programs share the engine.
        threads: Threads of the engine; 0 lets it choose.
        engine: Further fields of `EngineConfig`.
        options: How programs are written.
    """
    fields = {
        "model_path": str(served.model),
        "dtype": served.dtype,
        "kv_pages": served.kv_tokens // PAGE_TOKENS,
        "threads": threads,
        "policy": scheduler.policy,
        **({} if served.replay is None else {"replay": str(served.replay)}),
        **(engine or {}),
    }
    config = config_of(fields)
    return Arm(
        OURS,
        "",
        command=(sys.executable, "-P", "-m", "agentrt.lab.arms.runtime_arm"),
        settings={
            "engine": fields,
            "scheduler": asdict(scheduler),
            "play": asdict(options or PlayOptions()),
        },
        env=environment(config, os.environ) if threads else {},
    )


def client_arm(client: str, plan: ServerPlan, files: PeerFiles) -> Arm:
    """A plain client of a server.

    Args:
        client: `asyncio`, which needs nothing but httpx, or `langgraph`.
        plan: Plan of the server.
        files: Files of the peers.

    Raises:
        UsageError: There is no such client, or its packages were not installed.
    """
    if client not in CLIENTS:
        raise UsageError(f"there is no client {client!r}", hint="asyncio or langgraph")
    files.check(client)
    python = files.python if files.python.exists() else sys.executable
    return Arm(
        f"{client}+{plan.kind}",
        "",
        command=(str(python), str(files.script(CLIENTS[client]))),
        settings={
            "model": plan.model,
            "body": dict(plan.body),
            "form_body": dict(plan.form_body),
            "width": plan.width,
            "streams_what_may_end": plan.streams_what_may_end,
        },
        env={"PYTHONDONTWRITEBYTECODE": "1", "OPENAI_API_KEY": "none"},
    )


@record
class Played:
    """Programs as they were played.

    Attributes:
        samples: One for each program, in their order.
        steps: Steps of the engine; empty if the client does not see them.
    """

    samples: Sequence[ProgramSample]
    steps: Sequence[StepSample]


def fleet_arm(kind: str, model: str, scheduler: SchedulerConfig) -> Arm:
    """Our runtime over the replicas of a server, which is given when the arm is opened.

    Programs give no forms, since the plain client of such a fleet gives none either.

    Args:
        kind: Kind of the server.
        model: Name of its model.
        scheduler: How programs share the fleet.
    """
    return Arm(
        OURS,
        scheduler.policy,
        command=(sys.executable, "-P", "-m", "agentrt.lab.arms.fleet_arm"),
        settings={
            "kind": kind,
            "model": model,
            "scheduler": asdict(scheduler),
            "play": asdict(PlayOptions(forms=False)),
        },
    )


def play(process: ArmProcess, programs: Sequence[ProgramLine], **options: Any) -> Played:
    """Play programs from their arrival to the end of the last.

    Args:
        process: The arm.
        programs: The programs.
        options: Arguments that only this kind of arm takes.

    Raises:
        BenchFailed: The arm failed, or a program of it.
    """
    found = process.ask("play", programs=list(programs), **options)
    samples: list[ProgramSample] = found["samples"]
    for sample in samples:
        if sample["error"]:
            raise BenchFailed(f"{process.arm.name}: {sample['name']}: {sample['error']}")
    return Played(samples, [StepSample(*step) for step in found.get("steps", ())])
