"""What telemetry adds to compound latency: `python -m tests.runtime.telemetry_share [half [15]]`.

A program of 50 generations, ten branches of five, on the engine with random weights of that shape
(303 M parameters by default), in a process of its own. The arms take turns; the figure is the
median over rounds of an arm's latency by that of the arm without telemetry, with quartiles. The
arguments are the shape and the number of rounds.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import anyio

from agentrt import EngineConfig, chat, gather, open_runtime, program
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.runtime import Runtime
from agentrt.telemetry import SpanObserver, TranscriptObserver
from tests.runtime.orchestration_cost import live_provider

BRANCHES, DEPTH = 10, 5
TOKENS = 16
WITHOUT = "without"
ASK = chat(system="Be brief.")


@program
async def branch(number: int) -> int:
    for step in range(DEPTH):
        await ASK.user(f"{number} {step}").generate(max_tokens=TOKENS)
    return number


@program
async def branches() -> int:
    return len(await gather(*(branch(number) for number in range(BRANCHES))))


async def latency_s(runtime: Runtime) -> float:
    began_s = time.perf_counter()
    await runtime.run(branches)
    return time.perf_counter() - began_s


async def measure(model: Path, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of each arm by round."""
    config = EngineConfig(model, threads=2, kv_pages=512)
    file, live = (SpanObserver(folder=folder / name, environment={}) for name in ("file", "live"))
    told = TranscriptObserver(folder / "told")
    async with AsyncExitStack() as opened:
        arms = [
            (WITHOUT, open_runtime(engine=config)),
            ("file", open_runtime(engine=config, observers=[file])),
            (
                "file, transcripts and live spans",
                open_runtime(
                    engine=config, observers=[live, told], tracer_provider=live_provider()
                ),
            ),
        ]
        runtimes = [(name, await opened.enter_async_context(one)) for name, one in arms]
        for _, runtime in runtimes:
            await latency_s(runtime)  # prompts are in the cache from here on
        taken: dict[str, list[float]] = {name: [] for name, _ in runtimes}
        for turn in range(rounds):
            for name, runtime in turned(runtimes, turn):
                taken[name].append(await latency_s(runtime))
    file.close(timeout_s=60.0)
    live.close(timeout_s=60.0)
    told.close(timeout_s=60.0)
    return taken


def turned(order: Sequence[tuple[str, Runtime]], by: int) -> list[tuple[str, Runtime]]:
    at = by % len(order)
    return [*order[at:], *order[:at]]


def main() -> None:
    shape = sys.argv[1] if len(sys.argv) > 1 else "half"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with TemporaryDirectory() as folder:
        found = anyio.run(measure, checkpoint(shape_named(shape)), rounds, Path(folder))
    plain = found.pop(WITHOUT)
    print(f"{BRANCHES * DEPTH} generations, {median(plain):.2f} s without telemetry")
    for name, seconds in found.items():
        low, middle, high = quantiles(
            [one / other for one, other in zip(seconds, plain, strict=True)], n=4
        )
        print(f"{name:34} {middle:.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
