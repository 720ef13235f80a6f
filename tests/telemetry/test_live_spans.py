"""What a tracer provider that hangs or fails costs, and what live spans take from events."""

import gc
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentrt.base.clock import MonotonicClock
from agentrt.base.ids import RunId
from agentrt.protocol.events import NodeDeclared, NodeFinished, RunFinished, RunStarted, Scheduled
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime
from agentrt.runtime.observers import Observers
from agentrt.telemetry.live_spans import LiveSpans
from agentrt.testing import ScriptedBackend
from tests.telemetry.provider import KeptSpans, orphans, provider_to
from tests.telemetry.test_live import Seen, advise, run


class Hanging(SpanExporter):
    """An exporter that does not return before it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.go.wait()
        self.exported += len(spans)
        return SpanExportResult.SUCCESS


class Begun(SpanProcessor):
    """Knows the spans that have begun, and holds none of them."""

    def __init__(self) -> None:
        self.spans: list[weakref.ref[Span]] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.spans.append(weakref.ref(span))


def test_a_provider_that_hangs_holds_no_run() -> None:
    hanging = Hanging()

    async def main() -> None:
        backend = ScriptedBackend(lambda request, prompt: "7", clock=MonotonicClock())
        provider = provider_to(hanging)
        async with Runtime({"default": (backend, None)}, tracer_provider=provider) as runtime:
            assert await runtime.run(advise, "IBM") == "half is 1.5"
            assert hanging.exported == 0
            hanging.go.set()

    anyio.run(main)
    assert hanging.exported > 5


def test_spans_that_a_hanging_provider_has_no_room_for_are_dropped_and_counted(
    finance: list[Any],
) -> None:
    hanging, told = Hanging(), list[str]()
    live = LiveSpans({}, provider_to(hanging), queue_nodes=3, warn=told.append)
    for number in range(3):
        run_id = RunId(f"{number:016x}")
        events = [
            event if isinstance(event, StepDone) else replace(event, run_id=run_id)
            for event in finance
        ]
        assert isinstance(events[0], RunStarted)
        live.begin_run(events[0], None)
        Observers([live]).on_events(events)
    ends = 3 * sum(isinstance(event, NodeFinished | RunFinished) for event in finance)
    nodes = ends - 3  # the root ends with its run
    assert nodes - 3 - 1 <= live.dropped_spans <= nodes - 3
    assert len(told) == 1
    assert "spans are dropped" in told[0]
    hanging.go.set()
    live.close()


def test_a_span_that_has_ended_is_not_held_while_its_run_goes_on(finance: list[Any]) -> None:
    begun, provider = Begun(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(begun)
    live = LiveSpans({}, provider)
    run = live.begin_run(finance[0], None)
    assert run is not None
    Observers([live]).on_events(finance[:-1])
    assert live.flush()
    gc.collect()
    assert len(begun.spans) == 1 + len(run.span_ids) == 5
    held = [span for one in begun.spans if (span := one()) is not None]
    assert held == [run.root]
    live.close()


def test_steps_of_the_engine_link_to_the_live_spans_of_their_batch(finance: list[Any]) -> None:
    kept = KeptSpans()
    live = LiveSpans({"AGENTRT_TRACE_STEPS": "1"}, kept.provider)
    started = finance[0]
    run = live.begin_run(started, None)
    assert run is not None
    observers = Observers([live])
    observers.on_events(finance[:-1])
    observers.on_events([replace(finance[-1], span_ids=run.span_ids)])
    live.close()
    chats = {
        span.context.span_id for span in kept.all if span.name.startswith("chat") and span.context
    }
    steps = [span for span in kept.all if span.name == "engine.step"]
    linked = {link.context.span_id for step in steps for link in step.links}
    assert steps
    assert linked
    assert linked <= chats
    assert all(step.parent is None for step in steps)


def test_decisions_before_the_last_input_are_told_at_the_begin_of_a_span(
    finance: list[Any],
) -> None:
    kept = KeptSpans()
    live = LiveSpans({}, kept.provider)
    live.begin_run(finance[0], None)
    observers = Observers([live])
    for event in finance:
        observers.on_events([event])
        if isinstance(event, NodeDeclared) and event.kind == "generate":
            told = Scheduled(event.run_id, event.node_id, event.at_s, "held", "no room")
            observers.on_events([told])
    live.close()
    assert orphans(kept.all) == []
    events = [event.name for span in kept.all for event in span.events]
    assert events.count("agentrt.scheduled") == 2


class Broken(TracerProvider):
    """A provider that fails to make spans."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def start_span(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no room")


def test_a_provider_that_fails_costs_its_spans_alone() -> None:
    seen = Seen()
    provider = Broken(shutdown_on_exit=False)
    assert run(advise, "IBM", provider=provider, observers=[seen]) == "half is 1.5"
    assert all(event.outcome == "ok" for event in seen.events if isinstance(event, NodeFinished))
