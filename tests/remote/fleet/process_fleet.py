"""A fleet of servers in processes of their own, and a runtime on it."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt import RemoteEngineConfig, embedded
from agentrt.app import open_runtime
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.servers import plans_of
from agentrt.lab.bench.fleet.replicas import cores_of, replica_plan
from agentrt.remote.fleet.fleet_backend import FleetBackend
from agentrt.runtime import Runtime
from tests.remote.fleet.worker_networks import WorkerNetworks
from tests.remote.fleet.worker_processes import WorkerPlan, WorkerProcess

REQUESTS = 64
"""Requests that a worker computes at once."""
KV_TOKENS = 32_768
_KEY = "FLEET_KEY"
_FORMS = '{"backend": "guidance", "disable_any_whitespace": true}'
_VLLM = (
    *("--structured-outputs-config", _FORMS),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)


@dataclass(frozen=True)
class ProcessFleet:
    """Servers, and the runtime on them.

    Attributes:
        workers: The servers.
        runtime: The runtime.
    """

    workers: Sequence[WorkerProcess]
    runtime: Runtime

    @property
    def backend(self) -> FleetBackend:
        """The fleet as the runtime has it."""
        backend = self.runtime.engines["default"].backend
        assert isinstance(backend, FleetBackend)
        return backend


@asynccontextmanager
async def process_fleet(
    kind: str,
    count: int,
    *,
    isolated: bool,
    observers: Sequence[Any] = (),
    logs: Path | None = None,
) -> AsyncIterator[ProcessFleet]:
    """Start servers, and open a runtime on them.

    Args:
        kind: `ours` (`agentrt serve` with the embedded model) or `vllm`.
        count: Number of servers.
        isolated: Whether each has a network of its own, see `worker_networks`.
        observers: Observers of the runtime.
        logs: Folder of the servers' output; None drops it.
    """
    async with AsyncExitStack() as stack:
        networks = None
        if isolated:
            networks = WorkerNetworks(count)
            stack.callback(networks.close)
        plans = _plans(kind, count, isolated=isolated)
        workers = [WorkerProcess(plan, at, networks, logs) for at, plan in enumerate(plans)]
        for worker in workers:
            stack.callback(worker.close)
            worker.start()
        for worker in workers:
            await worker.until_ready()
        os.environ |= plans[0].key
        engine = RemoteEngineConfig(
            kind=plans[0].kind,
            addresses=tuple(one.url for one in workers),
            model=plans[0].model,
            key=next((f"env:{name}" for name in plans[0].key), None),
            warm_ahead=False,  # `backend` is the fleet itself, with nothing around it
        )
        opening = open_runtime(engine=engine, observers=observers)
        yield ProcessFleet(workers, await stack.enter_async_context(opening))


def _plans(kind: str, count: int, *, isolated: bool) -> list[WorkerPlan]:
    model = Path(embedded.path())
    served = Served(model, "float32", kv_tokens=KV_TOKENS)
    if kind == "vllm":
        plan = plans_of("vllm", served, peer_files(model), cores=1)[0]
        replicas = [replica_plan(plan, core, REQUESTS) for core in cores_of(count)]
        return [
            WorkerPlan(
                [*("{host}" if part == "127.0.0.1" else part for part in one.command), *_VLLM],
                one.model,
                "vllm",
                one.env,
            )
            for one in replicas
        ]
    key = {_KEY: "sk-fleet"} if isolated else {}  # a server beyond the loopback wants one
    command = (
        *(sys.executable, "-P", "-m", "agentrt", "serve", "--model", str(model)),
        *("--name", served.name, "--host", "{host}", "--port", "{port}", "--dtype", "float32"),
        *("--kv-tokens", str(KV_TOKENS), "--requests", str(REQUESTS), "--threads", "1"),
        *(part for name in key for part in ("--api-key", f"env:{name}")),
    )
    env = {"OMP_NUM_THREADS": "1", **key}
    return [WorkerPlan(command, served.name, "agentrt", env, key)] * count
