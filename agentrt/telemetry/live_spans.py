"""Live spans of a runtime: begun while nodes run, ended as they end, completed after the run.

A tracer provider that is active in the process takes part in three ways. What code opens while a
node runs hangs below the node. The span of a node is handed to the provider when the node ends.
After the run, the provider gets what the whole run alone can tell: the attributes of its root, and
the stages of the engine below each generation. Nothing is told twice.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode, TracerProvider

from agentrt.analysis import NodeRecord, RunRecord
from agentrt.base.content_config import ContentChoice
from agentrt.base.ids import RunId
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import Event, NodeFinished, RunFinished, RunStarted
from agentrt.telemetry.content import capture_by, capture_of
from agentrt.telemetry.live_run import LiveRun
from agentrt.telemetry.node_attributes import node_attributes, span_name
from agentrt.telemetry.otel_context import active_tracer, context_below, span_context
from agentrt.telemetry.run_trace import RunTrace, run_trace_of
from agentrt.telemetry.settings import steps_every_of
from agentrt.telemetry.span import Span, SpanLink
from agentrt.telemetry.steps import step_trace

QUEUE_NODES = 65_536
FLUSH_S = 5.0
BATCH_S = 0.05
"""Longest time for which ended nodes wait for others. To wake for each node, while an engine
computes the next one, costs as much as its span."""
BATCH_NODES = 64
"""So many do not wait. When a run ends, its loop begins those spans that have yet to begin."""
TURN_NODES = 16
"""Nodes of one turn, 1 to 2 ms: the loop may wait for it to end."""
PAUSE_S = 0.001
"""Pause between two turns, unless many nodes wait."""
_log = logging.getLogger("agentrt.telemetry")


class LiveSpans:
    """Live spans of the runs of a runtime; an observer that shares the records of the others.

    The loop's thread begins spans of code and queues what has ended. Another thread ends them,
    since a provider may export each span as it ends. If that falls behind, the latest spans are
    dropped and counted, and one warning says so.

    Args:
        environment: Replacement of the process environment.
        provider: The tracer provider; None takes that of the process, as it is when a run begins.
        keep: Choice of what is kept of prompts and answers; None leaves it to the environment.
        queue_nodes: Ended nodes that wait for their export, at most.
        batch_s: Longest time for which ended nodes wait for others, so that they share a wake-up.
        pause_s: Pause between two turns of the thread.
        warn: Reports that spans were dropped; None logs it.

    Raises:
        UsageError: A variable of the environment is malformed.

    Attributes:
        dropped_spans: Spans that were dropped so far.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        provider: TracerProvider | None = None,
        *,
        keep: ContentChoice | None = None,
        queue_nodes: int = QUEUE_NODES,
        batch_s: float = BATCH_S,
        pause_s: float = PAUSE_S,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._capture = capture_by(capture_of(environment), keep)
        self._steps_every = steps_every_of(environment)
        self._provider = provider
        self._runs: dict[RunId, LiveRun] = {}
        self._queue: deque[Callable[[], object]] = deque()
        self._max_queue, self._batch_s, self._pause_s = queue_nodes, batch_s, pause_s
        self._has_work, self._hurries = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._warn = warn or _log.warning
        self._is_closed = False
        self.dropped_spans = 0

    @property
    def wants_content(self) -> bool:
        """Whether events are to carry message content: it is captured, and a provider is there."""
        return self._capture != "NO_CONTENT" and active_tracer(self._provider) is not None

    @property
    def has_begun(self) -> bool:
        """Whether there are spans that `close` has not ended."""
        return bool(self._runs) or self._thread is not None

    def begin_run(self, started: RunStarted, caller: TraceContext | None) -> LiveRun | None:
        """Begin the spans of a run; None if no provider makes any.

        Args:
            started: Start of the run.
            caller: Parent of the run; None takes the current span.
        """
        tracer = active_tracer(self._provider)
        if tracer is None:
            return None
        parent = None if caller is None else context_below(span_context(caller, is_remote=True))
        try:
            run = LiveRun(tracer, started, parent, self._capture)
        except Exception as error:  # of a processor of the user
            self._warn(f"telemetry: the tracer provider makes no span: {error!r}")
            return None
        if run.is_recorded:
            self._runs[started.run_id] = run
        return run

    def on_record(self, record: RunRecord) -> None:
        """Share the record of a run that begins, which the caller fills; see `RunRecorder`."""
        run = self._runs.get(record.run_id)
        if run is not None:
            run.record = record

    def on_events(self, events: Sequence[Event]) -> None:
        """Queue the nodes that have ended, which are in the record; returns at once."""
        if not self._runs:
            return
        for event in events:
            if isinstance(event, NodeFinished):
                run = self._runs.get(event.run_id)
                node = None if run is None else run.record.nodes.get(event.node_id)
                if run is not None and node is not None and node.parent is not None:
                    run.note_end(node)
                    if not self._put(partial(self._end_node, run, node)):
                        run.leave_out(node)
            elif isinstance(event, RunFinished):
                run = self._runs.pop(event.run_id, None)
                if run is not None:
                    self._put(self._end_of(run))

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the provider has the spans of all that has ended, at most `timeout_s`."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._queue.append(done.set)
        self._hurries.set()
        self._has_work.set()
        return done.wait(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """End the spans of all runs, in at most `timeout_s`. Idempotent."""
        while self._runs:
            _, run = self._runs.popitem()
            self._put(self._end_of(run))
        if self._thread is not None:
            self.flush(timeout_s)
            self._is_closed = True
            self._hurries.set()
            self._has_work.set()
            self._thread = None

    def _put(self, job: Callable[[], object]) -> bool:
        """Queue a job; whether there was room."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="agentrt-spans", daemon=True)
            self._thread.start()
        if len(self._queue) < self._max_queue:
            self._queue.append(job)
            if not self._has_work.is_set():
                self._has_work.set()
            if len(self._queue) >= BATCH_NODES and not self._hurries.is_set():
                self._hurries.set()
            return True
        if not self.dropped_spans:
            self._warn("telemetry: the tracer provider falls behind, and spans are dropped")
        self.dropped_spans += 1
        return False

    def _work(self) -> None:
        """Do what is queued, a batch at a time: to wake for each node would cost what it takes.

        A batch is done in short turns, so that the loop does not wait for all of it.
        """
        while not self._is_closed:
            self._has_work.wait()
            in_haste = self._hurries.wait(self._batch_s)
            self._has_work.clear()
            self._hurries.clear()
            done = 0
            while self._queue:
                if done and done % TURN_NODES == 0 and not in_haste:
                    in_haste = self._hurries.wait(self._pause_s)
                done += 1
                try:
                    self._queue.popleft()()
                except Exception as error:
                    self._warn(f"telemetry: a span is lost: {type(error).__name__}: {error}")

    def _end_node(self, run: LiveRun, node: NodeRecord) -> None:
        finished = node.finished
        assert finished is not None
        end_us = run.clock.us(finished.at_s)
        start_us = min(run.begin_us(node), end_us)
        plain = Span(span_name(node), "", None, start_us, end_us, attributes=node_attributes(node))
        run.descriptions.describe(plain, node)
        live, is_told = run.take(node, plain)
        if not is_told:
            live.set_attributes(plain.attributes)
            for link in run.links_of(node):
                live.add_link(link.context, link.attributes)
        _end(live, plain)

    def _end_of(self, run: LiveRun) -> Callable[[], None]:
        """The job that ends the spans of a run. A trace file, if there is one, shares its trace."""
        return partial(self._end_run, run, run_trace_of(run.record, self._capture))

    def _end_run(self, run: LiveRun, built: RunTrace) -> None:
        """End the root with what the run alone can tell, and add the spans below its nodes."""
        outline = built.outline()
        root, *others = outline.spans
        finished = run.record.finished
        span_ids = finished.span_ids if finished is not None else {}
        nodes = {span_id: node_id for node_id, span_id in span_ids.items()}
        for span in others:
            node_id = nodes.get(span.parent_id or "")
            if span.span_id in nodes or node_id is None or span.kind == "consumer":
                continue  # the span of a node, or background work
            _end(_begun(run.tracer, span, run.context_below(node_id)), span)
        steps = step_trace(run.record, outline, self._steps_every)
        for span in steps.spans if steps is not None else ():
            _end(_begun(run.tracer, span, Context()), span)
        for left in run.left():
            left.end(root.end_us * 1000)
        run.root.set_attributes(root.attributes)
        for link in root.links:
            run.root.add_link(_target(link), link.attributes)
        _end(run.root, root)


def _begun(tracer: trace.Tracer, plain: Span, context: Context) -> trace.Span:
    """A live span that has begun with the attributes and the links of a plain one."""
    return tracer.start_span(
        plain.name,
        context,
        attributes=plain.attributes,
        links=[trace.Link(_target(link), link.attributes) for link in plain.links],
        start_time=plain.start_us * 1000,
    )


def _end(live: trace.Span, plain: Span) -> None:
    """Write events and status of a plain span on a live one, and end it."""
    for event in plain.events:
        live.add_event(event.name, event.attributes, event.at_us * 1000)
    if plain.error is not None:
        live.set_status(Status(StatusCode.ERROR, plain.error))
    live.end(plain.end_us * 1000)


def _target(link: SpanLink) -> trace.SpanContext:
    return span_context(TraceContext(link.trace_id, link.span_id), is_remote=False)
