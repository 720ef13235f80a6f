"""Spans that begin when their nodes have ended, in the thread that ends them."""

import threading
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from agentrt.protocol.events import NodeFinished
from agentrt.runtime.observers import Observers
from agentrt.telemetry.live_run import LiveRun
from agentrt.telemetry.live_spans import BATCH_NODES, TURN_NODES, LiveSpans
from tests.oracles.random_runs import play
from tests.telemetry.conftest import FINANCE


class Watching(SpanProcessor):
    """Knows in which thread each span has begun, and holds the first end of a span."""

    def __init__(self) -> None:
        self.threads: dict[int, list[int]] = {}
        self.begun_with: dict[int, set[str]] = {}
        self.ended_with: dict[int, set[str]] = {}
        self.go, self.is_ending = threading.Event(), threading.Event()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        begun = self.threads.setdefault(span.get_span_context().span_id, [])
        begun.append(threading.get_ident())
        self.begun_with[span.get_span_context().span_id] = told(span)

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.ended_with[span.context.span_id] = told(span)
        self.is_ending.set()
        self.go.wait()


def told(span: ReadableSpan) -> set[str]:
    """What a span has: names of attributes, and the nodes that it is linked to."""
    links = {f"link to {link.context.span_id:016x}" for link in span.links}
    return set(span.attributes or ()) | links


def watched(finance: list[Any], **settings: Any) -> tuple[Watching, LiveSpans, LiveRun]:
    """Live spans that wait for the end of the first, and a run with all its nodes at their end."""
    watching, provider = Watching(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(watching)
    live = LiveSpans({}, provider, warn=lambda text: None, **settings)
    run = live.begin_run(finance[0], None)
    assert run is not None
    Observers([live]).on_events(finance[:-1])
    assert watching.is_ending.wait(60.0)
    return watching, live, run


def ended_nodes(finance: list[Any]) -> list[str]:
    """Nodes that have ended, but for the root."""
    return [one.node_id for one in finance if isinstance(one, NodeFinished) and "/" in one.node_id]


def test_the_loop_does_not_wait_until_a_span_begins(finance: list[Any]) -> None:
    watching, live, _ = watched(finance)
    watching.go.set()
    assert live.flush()
    here = threading.get_ident()
    assert [here in begun for begun in watching.threads.values()] == [True] + 4 * [False]
    live.close()


def test_ids_are_known_when_a_run_ends_though_its_spans_are_late(finance: list[Any]) -> None:
    watching, live, run = watched(finance)
    assert len(watching.threads) < 1 + len(ended_nodes(finance))  # some have yet to begin
    ids = dict(run.span_ids)
    assert sorted(ids) == sorted(ended_nodes(finance))
    assert {int(one, 16) for one in ids.values()} < watching.threads.keys()
    watching.go.set()
    live.close()
    assert run.span_ids == ids
    assert all(len(begun) == 1 for begun in watching.threads.values())


def test_a_span_for_which_there_was_no_room_does_not_begin(finance: list[Any]) -> None:
    watching, live, run = watched(finance, queue_nodes=1)
    nodes = len(ended_nodes(finance))
    assert live.dropped_spans >= nodes - 2  # one is at its end, and one waits
    assert len(run.span_ids) == nodes - live.dropped_spans
    watching.go.set()
    live.close()
    assert len(watching.threads) == 1 + nodes - live.dropped_spans


def test_a_late_span_begins_with_all_that_its_node_tells(finance: list[Any]) -> None:
    watching, live, run = watched(finance)
    watching.go.set()
    live.close()
    nodes = {int(one, 16) for one in run.span_ids.values()}
    assert len(nodes) == len(ended_nodes(finance))
    begun_with = [watching.begun_with[one] for one in nodes]
    assert begun_with == [watching.ended_with[one] for one in nodes]
    assert sum("gen_ai.usage.output_tokens" in one for one in begun_with) == 2
    links = {f"link to {one:016x}" for one in nodes}
    assert any(links & one for one in begun_with)


def test_many_ended_nodes_do_not_wait_for_others(finance: list[Any]) -> None:
    """The loop begins what has yet to begin when a run ends, so that must not be much."""
    watching, provider = Watching(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(watching)
    live = LiveSpans({}, provider, batch_s=3600.0)
    for number in range(1 + BATCH_NODES // len(ended_nodes(finance))):
        events = play(FINANCE, run_id=f"{number:016x}")[:-1]
        live.begin_run(events[0], None)  # type: ignore[arg-type]
        Observers([live]).on_events(events)
    assert watching.is_ending.wait(60.0)
    watching.go.set()
    live.close()


def test_a_batch_is_ended_in_short_turns_unless_somebody_waits_for_it() -> None:
    """The loop cannot go on while the thread computes."""
    turn, ended = threading.Event(), list[str]()

    class Noting(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span.name)
            if len(ended) >= TURN_NODES:
                turn.set()

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Noting())
    live = LiveSpans({}, provider, pause_s=3600.0)
    for number in range(BATCH_NODES // 4 - 1):  # four nodes each; more would not wait
        events = play(FINANCE, run_id=f"{number:016x}")[:-1]
        live.begin_run(events[0], None)  # type: ignore[arg-type]
        Observers([live]).on_events(events)
    assert turn.wait(60.0)
    assert len(ended) == TURN_NODES
    assert live.flush()
    assert len(ended) > TURN_NODES
    live.close()
