"""Replicas of one server, a core each, with equal flags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from agentrt.base.cpu_cores import core_numbers
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess


def replica_plan(plan: ServerPlan, core: int, requests: int) -> ServerPlan:
    """The plan of a replica: bound to a core, by priority, with so many sequences at once.

    Args:
        plan: Plan of a vLLM server.
        core: Number of the core.
        requests: Sequences that it computes at once.
    """
    flags = ("--scheduling-policy", "priority", "--max-num-seqs", str(requests))
    return replace(
        plan,
        command=("taskset", "-c", str(core), *plan.command, *flags),
        env={**plan.env, "OMP_NUM_THREADS": "1"},
        form_body={},
        counters={**plan.counters, "output_tokens": "vllm:generation_tokens_total"},
    )


class Replicas:
    """Servers that run and have loaded their model, as the server of an arm. All start at once.

    Args:
        plans: A plan a replica.
        stack: Closes them.

    Attributes:
        servers: The servers.

    Raises:
        BenchFailed: One does not start.
    """

    def __init__(self, plans: Sequence[ServerPlan], stack: contextlib.ExitStack) -> None:
        with ThreadPoolExecutor(len(plans)) as pool:
            starts = [pool.submit(ServerProcess, plan) for plan in plans]
            wait(starts)
        for start in starts:
            if start.exception() is None:
                stack.callback(start.result().close)
        self.servers = [start.result() for start in starts]

    @property
    def url(self) -> str:
        """Addresses, separated by commas."""
        return ",".join(server.url for server in self.servers)

    @property
    def about(self) -> dict[str, Any]:
        """Facts about each."""
        return {"replicas": [server.about for server in self.servers]}

    @property
    def groups(self) -> tuple[int, ...]:
        """Ids of their groups of processes."""
        return tuple(group for server in self.servers for group in server.groups)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let all run for the length of a block."""
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server.running())
            yield

    def counts(self) -> dict[str, int]:
        """Sums of their counts since their start."""
        found: dict[str, int] = {}
        for server in self.servers:
            for name, count in server.counts().items():
                found[name] = found.get(name, 0) + count
        return found


def cores_of(count: int) -> list[int]:
    """A core for each replica; they share cores if there are more of them."""
    cores = sorted(core_numbers())
    return [cores[at % len(cores)] for at in range(count)]
