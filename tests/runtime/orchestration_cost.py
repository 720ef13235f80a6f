"""What orchestration costs a node: `python tests/runtime/orchestration_cost.py [nodes]`.

One program makes that many nodes and awaits them all, on a scripted engine without any delay. The
engine's own time is measured apart (the same requests straight to it) and taken off. CPU time of
the whole process, median of 7; the second figure is with spans written to a Jaeger file, the third
with live spans in a tracer provider too, the fourth with transcripts written.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agentrt import chat, gather, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime
from agentrt.telemetry import SpanObserver, TranscriptObserver
from agentrt.testing import ScriptedBackend

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


async def run_once(
    program_to_run: object,
    nodes: int,
    observer: SpanObserver | TranscriptObserver | None = None,
    provider: TracerProvider | None = None,
) -> float:
    backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock(), max_running=4096)
    observers = [observer] if observer is not None else []
    runtime = Runtime({"default": (backend, None)}, observers=observers, tracer_provider=provider)
    async with runtime:
        started_s = time.process_time()
        await runtime.run(program_to_run, nodes)  # type: ignore[arg-type]
        if observer is not None:
            observer.close(timeout_s=60.0)
    return time.process_time() - started_s  # live spans are handed over at the end


async def engine_alone(nodes: int, at_once: int) -> float:
    backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock(), max_running=4096)
    await backend.start()
    prompt = MessagePrompt((Open("user"), Text("x"), Close()))
    started_s = time.process_time()
    sent = ended = 0
    events = backend.events()
    while ended < nodes:
        while sent < nodes and sent - ended < at_once:
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
            ended += len(event.ends)
    took_s = time.process_time() - started_s
    await backend.aclose()
    return took_s


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for shape, at_once in ((generations, nodes), (chain, 1), (tools, 0), (programs, 0)):
        whole, traced, live, told, alone = [], [], [], [], []
        with TemporaryDirectory() as folder:
            for _ in range(ROUNDS):
                whole.append(anyio.run(run_once, shape, nodes))
                spans = SpanObserver(folder=Path(folder), environment={})
                traced.append(anyio.run(run_once, shape, nodes, spans))
                spans = SpanObserver(folder=Path(folder), environment={})
                live.append(anyio.run(run_once, shape, nodes, spans, live_provider()))
                transcripts = TranscriptObserver(Path(folder))
                told.append(anyio.run(run_once, shape, nodes, transcripts))
                alone.append(anyio.run(engine_alone, nodes, at_once) if at_once else 0.0)
        us = 1e6 / nodes
        engine = median(alone) * us
        print(
            f"{shape.name:12} {median(whole) * us - engine:6.1f} us a node, with telemetry "
            f"{median(traced) * us - engine:6.1f}, with live spans too "
            f"{median(live) * us - engine:6.1f}, with transcripts "
            f"{median(told) * us - engine:6.1f} (the scripted engine's {engine:.1f} taken off)"
        )


if __name__ == "__main__":
    main()
