"""Programs under a server that is killed.

`python -m tests.remote.killed_server KIND [KILLS [SECONDS]]` plays them until so many kills or
seconds. KIND is `ours` (`agentrt serve`) or `llama-server` (built by `make peers`). Rounds of
programs read texts and items along while the server is killed at random points and started again.
Printed are programs lost, items or text handed on twice or missing, programs that ended with
`OutputDiverged`, and outputs that differ from an undisturbed round.
"""

import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx

from agentrt import OutputDiverged, Truncated, chat, embedded, program
from agentrt.app import open_runtime
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.servers import plans_of
from agentrt.protocol.events import Event, Scheduled
from agentrt.runtime import Runtime

PROGRAMS = 8
POLL_S = 0.05
LIFE_S = 6.0
"""Longest life of a server; a longer round lengthens it."""
ASK = chat(system="Be brief.")


class HandedOnWrong(Exception):
    """A reading does not have what the awaited value has."""


@program
async def steps(number: int) -> list[Any]:
    first = ASK.user(f"Say something of {number}.").generate(
        max_tokens=60, name="first", temperature=1.0
    )
    listed = ASK.user(f"List numbers near {number}.").each(
        int, max_tokens=120, name="listed", temperature=1.0
    )
    whole = ASK.user(f"And of {number + 1}?").generate(max_tokens=60, name="whole", temperature=0.0)
    pieces = [piece async for piece in first.stream()]
    if "".join(pieces) != await first:
        raise HandedOnWrong(f"{pieces} of {await first!r}")
    items: list[int] = []
    try:
        async for item in listed:
            items.append(item)  # noqa: PERF401  # those before an error count
        whole_list = await listed
    except Truncated as short:
        whole_list = short.partial
    if items != whole_list:
        raise HandedOnWrong(f"{items} of {whole_list}")
    then = ASK.user("And of ", first, "?").generate(max_tokens=60, name="then")
    return [await first, items, await whole, await then]


class KillableServer:
    """A server at one address, however often it is killed and started again."""

    def __init__(self, kind: str) -> None:
        model = Path(embedded.path())
        served = Served(model, "float32", slots=8, kv_tokens=32_768)
        plan = plans_of(kind, served, peer_files(model), cores=1)[0]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self._command = [part.replace("{port}", str(self._port)) for part in plan.command]
        self._env = {**os.environ, **plan.env}
        self.model = plan.model
        self.url = f"http://127.0.0.1:{self._port}"
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            self._command, env=self._env, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def kill(self) -> None:
        """End the process, and start it again."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = self._started()

    def close(self) -> None:
        """End the process for good."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()

    async def wait_until_ready(self) -> None:
        """Wait until it answers its health check."""
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    if (await client.get(f"{self.url}/health")).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                await anyio.sleep(POLL_S)


@dataclass
class Found:
    """What a play of rounds gave."""

    kills: int = 0
    programs: int = 0
    resubmitted: int = 0
    lost: list[str] = field(default_factory=list)
    twice_or_missing: list[str] = field(default_factory=list)
    diverged: list[str] = field(default_factory=list)
    changed: Counter[str] = field(default_factory=Counter)


class Resubmissions:
    """Counts the requests that were submitted again."""

    def __init__(self, found: Found) -> None:
        self._found = found

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Scheduled):
                self._found.resubmitted += event.decision == "resubmitted"


async def play(kind: str, kills: int, seed: int = 0, limit_s: float = math.inf) -> Found:
    """Rounds of programs until the server was killed so often, or for so many seconds."""
    ends_at_s = time.monotonic() + limit_s
    found, chance = Found(), random.Random(seed)
    server = KillableServer(kind)
    try:
        await server.wait_until_ready()
        opened = open_runtime(
            engine=server.url, remote_model=server.model, observers=[Resubmissions(found)]
        )
        async with opened as runtime:
            began_s = time.monotonic()
            expected = await a_round(runtime)
            round_s = time.monotonic() - began_s
            while found.kills < kills and time.monotonic() < ends_at_s:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(kill_often, server, chance, found, kills, round_s)
                    results = await a_round(runtime)
                    tasks.cancel_scope.cancel()
                for one, undisturbed in zip(results, expected, strict=True):
                    judge(found, one, undisturbed)
                await server.wait_until_ready()
    finally:
        server.close()
    return found


def judge(found: Found, result: Any, undisturbed: Any) -> None:
    """Count one program."""
    found.programs += 1
    if isinstance(result, OutputDiverged):
        found.diverged.append(result.message)
    elif isinstance(result, HandedOnWrong):
        found.twice_or_missing.append(str(result)[:300])
    elif isinstance(result, Exception):
        found.lost.append(f"{type(result).__name__}: {result}"[:300])
    else:
        names = ("first", "listed", "whole", "then")
        found.changed.update(
            name for name, a, b in zip(names, result, undisturbed, strict=True) if a != b
        )


async def a_round(runtime: Runtime) -> list[Any]:
    results: list[Any] = [None] * PROGRAMS

    async def run(number: int) -> None:
        try:
            results[number] = await runtime.run(steps, number)
        except Exception as error:
            while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            results[number] = error

    async with anyio.create_task_group() as tasks:
        for number in range(PROGRAMS):
            tasks.start_soon(run, number)
    return results


async def kill_often(
    server: KillableServer, chance: random.Random, found: Found, kills: int, round_s: float
) -> None:
    while found.kills < kills:
        await server.wait_until_ready()
        await anyio.sleep(chance.uniform(0.0, max(round_s, LIFE_S)))
        found.kills += 1
        await anyio.to_thread.run_sync(server.kill)


def main() -> None:
    kind, kills, limit_s = (*sys.argv[1:], *("ours", "40", "inf")[len(sys.argv) - 1 :])
    found = anyio.run(play, kind, int(kills), 0, float(limit_s))
    lists = ("lost", "twice_or_missing", "diverged")
    counts = vars(found) | {name: len(getattr(found, name)) for name in lists}
    print(json.dumps({**counts, "examples": {name: getattr(found, name)[:3] for name in lists}}))


if __name__ == "__main__":
    main()
