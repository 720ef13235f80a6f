"""What orchestration costs a node: `python tests/runtime/orchestration_cost.py [nodes]`.

One program makes that many nodes and awaits them all, on a scripted engine without any delay. Five
arms take turns, forth and back round by round: without observers, with spans written to a Jaeger
file, with live spans in a tracer provider too, with transcripts written, and the engine alone (the
same requests straight to it), which is taken off.

`processor` is CPU time of the whole process until all is written and handed over, `latency` is from
submit to result. The figures are medians of 8; those with a sign are medians of the differences
from the arm without observers in the same round.

`paced` is the chain on an engine that takes 5 ms an answer: what is done while it computes costs no
latency there, and processor time all the same.
"""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agentrt import chat, gather, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text
from agentrt.program import Program
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime
from agentrt.telemetry import SpanObserver, TranscriptObserver
from agentrt.testing import ScriptedBackend

ASK = chat(system="Be brief.")
ROUNDS = 8
PACED_TOKENS_PER_S, PACED_NODES = 200.0, 100
WITHOUT = "without"
ARMS = (WITHOUT, "file", "live spans too", "transcripts")


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


@program
async def leaf() -> int:
    return 1


@program
async def programs(n: int) -> int:
    return len(await gather(*(leaf() for _ in range(n))))


class Nowhere(SpanExporter):
    """An exporter that drops all spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def live_provider() -> TracerProvider:
    """A provider as services have it, without a collector behind it."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


@record
class Cost:
    """Microseconds a node: CPU time of the process, and time on the clock."""

    processor_us: float
    latency_us: float


def now() -> Cost:
    """Instants in microseconds."""
    return Cost(time.process_time() * 1e6, time.perf_counter() * 1e6)


def since(begun: Cost, ended: Cost, nodes: int) -> Cost:
    """Time between two instants, a node."""
    processor_us = (ended.processor_us - begun.processor_us) / nodes
    return Cost(processor_us, (ended.latency_us - begun.latency_us) / nodes)


async def run_once(
    arm: str,
    folder: Path,
    shape: Program[..., int],
    nodes: int,
    tokens_per_s: float = math.inf,
) -> Cost:
    """Cost of one run of an arm."""
    backend = ScriptedBackend(
        lambda request, prompt: "y",
        clock=MonotonicClock(),
        max_running=4096,
        decode_tokens_per_s=tokens_per_s,
    )
    observers: list[SpanObserver | TranscriptObserver] = []
    if arm == "transcripts":
        observers.append(TranscriptObserver(folder))
    elif arm != WITHOUT:
        observers.append(SpanObserver(folder=folder, environment={}))
    provider = live_provider() if arm == "live spans too" else None
    runtime = Runtime({"default": (backend, None)}, observers=observers, tracer_provider=provider)
    async with runtime:
        begun = now()
        await runtime.run(shape, nodes)
        over = now()
        for observer in observers:
            observer.close(timeout_s=60.0)
    whole, run = since(begun, now(), nodes), since(begun, over, nodes)  # live spans end at the end
    return Cost(whole.processor_us, run.latency_us)


async def engine_alone(nodes: int, at_once: int) -> Cost:
    """Cost of the engine for the requests of generations, so many at once."""
    backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock(), max_running=4096)
    await backend.start()
    system = (Open("system"), Text("Be brief."), Close())
    prompt = MessagePrompt((*system, Open("user"), Text("x"), Close()))
    begun = now()
    sent = answered = 0
    events = backend.events()
    while answered < nodes:
        while sent < nodes and sent - answered < at_once:
            backend.submit(
                GenerateRequest(
                    RequestId(sent),
                    RunId("0" * 16),
                    NodeId("x#0"),
                    "",
                    prompt,
                    SamplingParams(max_tokens=4),
                )
            )
            sent += 1
        event = await anext(events)
        if isinstance(event, StepDone):
            answered += len(event.ends)
    ended = now()
    await backend.aclose()
    return since(begun, ended, nodes)


def measured(
    folder: Path, shape: Program[..., int], nodes: int, tokens_per_s: float = math.inf
) -> dict[str, list[Cost]]:
    """Costs of all arms, by round."""
    costs: dict[str, list[Cost]] = {arm: [] for arm in ARMS}
    for turn in range(ROUNDS):
        for arm in ARMS if turn % 2 == 0 else reversed(ARMS):
            once = partial(run_once, arm, folder, shape, nodes, tokens_per_s)
            costs[arm].append(anyio.run(once))
    return costs


def lines(name: str, costs: dict[str, list[Cost]], engine: Cost) -> Iterator[str]:
    """The table of a shape."""
    without = costs[WITHOUT]
    processor_us = median([one.processor_us for one in without])
    latency_us = median([one.latency_us for one in without])
    yield (
        f"{name:12} processor {processor_us - engine.processor_us:6.1f} us a node, latency "
        f"{latency_us - engine.latency_us:6.1f} (the engine's {engine.processor_us:.1f} and "
        f"{engine.latency_us:.1f} taken off)"
    )
    for arm in ARMS[1:]:
        pairs = list(zip(without, costs[arm], strict=True))
        processor_us = median([one.processor_us - base.processor_us for base, one in pairs])
        latency_us = median([one.latency_us - base.latency_us for base, one in pairs])
        yield f"  {arm:18} {processor_us:+6.1f}{'':21} {latency_us:+6.1f}"


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with TemporaryDirectory() as name:
        folder = Path(name)
        for shape, at_once in ((generations, nodes), (chain, 1), (tools, 0), (programs, 0)):
            costs = measured(folder, shape, nodes)
            alone = [
                anyio.run(engine_alone, nodes, at_once) if at_once else Cost(0.0, 0.0)
                for _ in range(ROUNDS)
            ]
            engine = Cost(
                median([one.processor_us for one in alone]),
                median([one.latency_us for one in alone]),
            )
            print("\n".join(lines(shape.name, costs, engine)), flush=True)
        paced = measured(folder, chain, PACED_NODES, PACED_TOKENS_PER_S)
        print("\n".join(lines("paced", paced, Cost(0.0, 1e6 / PACED_TOKENS_PER_S))))


if __name__ == "__main__":
    main()
