"""Engines for sessions: our runtime in this process, servers that are started, and any URL."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, field
from typing import Any

from anyio import to_thread

from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.record import record
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.served import PAGE_TOKENS, Served
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.servers import SERVERS, plans_of
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log
from agentrt.lab.sessions.http_arm import http_arm
from agentrt.lab.sessions.play import SessionArm
from agentrt.lab.sessions.program_arm import ProgramArm
from agentrt.lab.sessions.samples import Watch
from agentrt.lab.workloads.agent_session import AgentSession
from agentrt.scheduler import Estimates

OWN = "own"
KINDS = (OWN, *SERVERS)

Json = dict[str, Any]


@record
class OpenArm:
    """An engine that is ready.

    Attributes:
        arm: The engine.
        about: Settings, for the result.
    """

    arm: SessionArm
    about: Json = field(default_factory=dict)


@record
class ArmSettings:
    """Settings with which engines are opened.

    Attributes:
        served: Model and memory; None if all engines are URLs.
        threads: Threads of our engine; 0 lets it choose.
        url_model: Name of the model at a URL; "" takes the first that it lists.
        url_headers: Headers of each request to a URL.
        probe: Session that finds the best plan of a server; None takes the first plan.
    """

    served: Served | None
    threads: int = 0
    url_model: str = ""
    url_headers: dict[str, str] = field(default_factory=dict)
    probe: AgentSession | None = None


@asynccontextmanager
async def open_arm(name: str, settings: ArmSettings) -> AsyncIterator[OpenArm]:
    """An engine as long as the block lasts.

    Args:
        name: `own`, a kind of server, or the URL of one.
        settings: Settings with which it is opened.

    Raises:
        BenchFailed: The engine does not work.
        UsageError: The engine was not built.
    """
    async with AsyncExitStack() as stack:
        if "://" in name:
            yield await _at_url(name, settings, stack)
        elif settings.served is None:
            raise BenchFailed(f"{name} has no model to serve")
        elif name == OWN:
            yield await _own(settings.served, settings.threads, stack)
        else:
            files = peer_files(settings.served.model)
            plans = plans_of(name, settings.served, files, cores=cores())
            # Agents do not know of each other, so none of them can limit the requests of all.
            plan = await _best([plan for plan in plans if not plan.width], settings.probe)
            yield await _server(plan, stack)


async def _own(served: Served, threads: int, stack: AsyncExitStack) -> OpenArm:
    engine = EngineConfig(
        model_path=served.model,
        dtype="float32" if served.dtype == "float32" else "bfloat16",
        kv_pages=served.kv_tokens // PAGE_TOKENS,
        threads=threads,
    )
    scheduler = SchedulerConfig()
    opening = open_runtime(engine=engine, models={}, scheduler=scheduler, estimates=Estimates())
    runtime = await stack.enter_async_context(opening)
    freeze_gc()
    about = {"engine": {**asdict(engine), "model_path": str(served.model)}}
    return OpenArm(ProgramArm(runtime), {**about, "scheduler": asdict(scheduler)})


async def _at_url(url: str, settings: ArmSettings, stack: AsyncExitStack) -> OpenArm:
    opening = http_arm(url, settings.url_model, headers=settings.url_headers)
    return OpenArm(await stack.enter_async_context(opening), {"url": url})


async def _server(plan: ServerPlan, stack: AsyncExitStack) -> OpenArm:
    server = await to_thread.run_sync(ServerProcess, plan)
    stack.callback(server.close)
    opening = http_arm(server.url, plan.model, body=plan.body, headers=plan.headers)
    return OpenArm(await stack.enter_async_context(opening), dict(server.about))


async def _best(plans: Sequence[ServerPlan], probe: AgentSession | None) -> ServerPlan:
    """The plan that plays a session quickest.

    Raises:
        BenchFailed: None of them can play it.
    """
    if len(plans) == 1 or probe is None:
        return plans[0]
    took_s: dict[int, float] = {}
    errors: list[str] = []
    for at, plan in enumerate(plans):
        async with AsyncExitStack() as stack:
            opened = await _server(plan, stack)
            began_s = time.monotonic()
            sample = await opened.arm.play(probe, Watch())
            if sample.error:
                errors.append(f"{plan.name}: {sample.error}")
            else:
                took_s[at] = time.monotonic() - began_s
                log(f"{plan.name}: {took_s[at]:.2f} s for a session")
    if not took_s:
        raise BenchFailed("; ".join(errors))
    return plans[min(took_s, key=took_s.__getitem__)]
