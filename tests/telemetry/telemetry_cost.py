"""What telemetry costs a node: `python tests/telemetry/telemetry_cost.py [nodes]`.

The same program with and without a `SpanObserver` that writes a trace file; processor time of the
whole process, building and writing the file included.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from agentrt import chat, gather, program, tool
from agentrt.clock import MonotonicClock
from agentrt.runtime import Runtime
from agentrt.scripted import ScriptedBackend
from agentrt.telemetry import SpanObserver

ASK = chat(system="Be brief.")
ROUNDS = 7


@tool(effects="pure")
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@program
async def generations(n: int) -> int:
    return len(await gather(*(ASK.user("x").generate(max_tokens=4) for _ in range(n))))


@program
async def tools(n: int) -> int:
    return len(await gather(*(double(i) for i in range(n))))


@program
async def chain(n: int) -> int:
    for _ in range(n):
        await ASK.user("x").generate(max_tokens=4)
    return n


async def run_once(program_to_run: Any, nodes: int, folder: Path | None) -> float:
    observer = SpanObserver(folder=folder, environment={}) if folder else None
    backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock(), max_running=4096)
    observers = [observer] if observer else []
    async with Runtime({"default": (backend, None)}, observers=observers) as runtime:
        started_s = time.process_time()
        await runtime.run(program_to_run, nodes)
        if observer:
            observer.flush(60.0)
        return time.process_time() - started_s


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        for shape in (generations, chain, tools):
            without, with_files = [], []
            for _ in range(ROUNDS):
                without.append(anyio.run(run_once, shape, nodes, None))
                with_files.append(anyio.run(run_once, shape, nodes, Path(folder)))
            us = 1e6 / nodes
            print(
                f"{shape.name:12} without {median(without) * us:6.1f} us a node, "
                f"with telemetry {median(with_files) * us:6.1f}"
            )


if __name__ == "__main__":
    main()
