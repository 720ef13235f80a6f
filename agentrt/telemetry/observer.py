"""The observer that turns finished runs into traces."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from agentrt.analysis import RunRecord, RunRecorder
from agentrt.base.content_config import ContentChoice
from agentrt.base.ids import RunId, trace_id_of
from agentrt.protocol.events import Event
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.settings import RUNS_FOLDER, Settings, settings_of, with_content
from agentrt.telemetry.span import Trace

if TYPE_CHECKING:
    from agentrt.telemetry.run_trace import RunTrace

T = TypeVar("T")

FLUSH_S = 5.0
MAX_REMEMBERED = 1000
MAX_WAITING_NODES = 100_000
"""Nodes of finished runs whose spans are not built yet; a record takes some 2 KB a node."""

_log = logging.getLogger("agentrt.telemetry")


class Exporter(Protocol):
    """Destination of traces."""

    def export(self, traces: Sequence[Trace]) -> Path | None:
        """Export the traces of one run; returns the file, if there is one."""


class SpanObserver:
    """Collects events; when a run ends, builds its spans and exports them in a thread.

    During a run, an event costs an append. Nothing here ever raises into the run: an error is
    reported once, in one line.

    Runs with live spans are not sent to the collector, since a tracer provider of the process has
    them. Their files hold the same spans by the same ids.

    Attributes:
        files: Trace file of each of the latest runs.
        dropped_spans: Spans of runs that were dropped before they were built.

    Args:
        exporter: Destination of traces; None follows `settings`.
        settings: Settings; None reads the environment.
        folder: Folder of trace files, if no endpoint is set.
        warn: Reports an error; None logs it.
        environment: Replacement of the process environment.
        max_waiting_nodes: Nodes of finished runs whose spans are not built yet, at most.

    Raises:
        UsageError: An `OTEL_*` variable has an unsupported value.
    """

    def __init__(
        self,
        exporter: Exporter | None = None,
        *,
        settings: Settings | None = None,
        folder: Path = RUNS_FOLDER,
        warn: Callable[[str], None] | None = None,
        environment: Mapping[str, str] | None = None,
        max_waiting_nodes: int = MAX_WAITING_NODES,
    ) -> None:
        environment = os.environ if environment is None else environment
        self._settings = settings or settings_of(environment, folder)
        self._warn = warn or _log.warning
        self._warned = False
        self._exporter = exporter
        self._environment = environment
        self._recorder = RunRecorder(self._enqueue)
        self._max_waiting_nodes = max_waiting_nodes
        self._waiting_nodes = 0
        self._lock = threading.Lock()
        self._runs: SimpleQueue[RunTrace | Trace | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._trace_ids: dict[RunId, str] = {}
        self.files: dict[RunId, Path] = {}
        self.dropped_spans = 0

    @property
    def wants_content(self) -> bool:
        """Whether the user enabled message content; the runtime then adds it to events."""
        return self._settings.enabled and self._settings.capture != "NO_CONTENT"

    @property
    def makes_spans(self) -> bool:
        """Whether it makes spans; the runtime then names them to engines and tools."""
        return self._settings.enabled

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events; returns at once."""
        if self._settings.enabled and not self._closed:
            self._recorder.on_events(events)

    def on_record(self, record: RunRecord) -> None:
        """Share the record of a run that begins, which the caller fills; see `RunRecorder`."""
        if self._settings.enabled and not self._closed:
            self._recorder.on_record(record)

    def add_trace(self, trace: Trace) -> None:
        """Export spans that belong to no run; without a collector they are left out."""
        if self._settings.enabled and self._settings.endpoint and not self._closed:
            self._put(trace)

    def file_of(self, run_id: RunId, timeout_s: float = FLUSH_S) -> Path | None:
        """The trace file of a finished run; None if it went to a collector or was not written."""
        if run_id not in self.files:
            self.flush(timeout_s)
        return self.files.get(run_id)

    def url_of(self, run_id: RunId) -> str | None:
        """Address of a page with the trace of a run; None if it is in a file, or unknown."""
        return self._settings.url_of(self._trace_ids.get(run_id) or trace_id_of(run_id))

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the traces of all finished runs are exported, at most `timeout_s`."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._runs.put(done)
        return done.wait(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Export what is left, unfinished runs included, in at most `timeout_s`. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._recorder.finish_open()
        if self._thread is not None:
            self._runs.put(None)
            self._thread.join(timeout_s)
        close = getattr(self._exporter, "close", None)
        if close is not None:
            close(timeout_s)

    def _enqueue(self, record: RunRecord) -> None:
        """Queue a finished run for the thread."""
        from agentrt.telemetry.run_trace import run_trace_of  # once a run has ended

        _remember(self._trace_ids, record.run_id, record.trace_id)
        self._put(run_trace_of(record, self._settings.capture))

    def _put(self, job: RunTrace | Trace) -> None:
        """Queue a job, unless as many nodes wait as the memory is meant for."""
        with self._lock:
            if self._waiting_nodes and self._waiting_nodes + _size(job) > self._max_waiting_nodes:
                self.dropped_spans += _size(job)
                self._warn_once("runs end faster than their spans are built, and some are dropped")
                return
            self._waiting_nodes += _size(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentrt-traces", daemon=True)
            self._thread.start()
        self._runs.put(job)

    def _run(self) -> None:
        while (found := self._runs.get()) is not None:
            if isinstance(found, threading.Event):
                found.set()
                continue
            try:
                self._export(found)
            except Exception as error:
                what = found.name if isinstance(found, Trace) else f"run {found.record.run_id}"
                self._warn_once(f"the trace of {what} is lost: {error}")
            with self._lock:
                self._waiting_nodes -= _size(found)
            del found  # its record, and the builder of its trace

    def _export(self, job: RunTrace | Trace) -> None:
        if self._exporter is None:
            self._exporter = self._open()
        if isinstance(job, Trace):
            self._exporter.export([job])
            return
        record, started = job.record, job.record.started
        if started is not None and started.trace_id and self._settings.endpoint:
            return  # the tracer provider of the process has its spans
        from agentrt.telemetry.steps import step_trace  # once a run has ended

        run = job.whole()
        steps = step_trace(record, run, self._settings.steps_every)
        path = self._exporter.export([run, steps] if steps else [run])
        if path is not None:
            _remember(self.files, record.run_id, path)

    def _open(self) -> Exporter:
        if not self._settings.endpoint:
            return JaegerFile(self._settings.folder, batch_id=self._settings.batch_id)
        from agentrt.telemetry.otlp import OtlpExport  # takes 160 ms, needed for a collector only

        return OtlpExport(
            self._settings.endpoint, environment=self._environment, warn=self._warn_once
        )

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"telemetry: {text}")


def _size(job: RunTrace | Trace) -> int:
    """Nodes or spans of a job, at least 1."""
    return max(1, len(job.spans) if isinstance(job, Trace) else len(job.record.nodes))


def _remember(known: dict[RunId, T], run_id: RunId, value: T) -> None:
    """Keep a value of a run, and those of the latest runs."""
    known[run_id] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]


def collector_of(
    environment: Mapping[str, str], keep: ContentChoice | None = None
) -> SpanObserver | None:
    """An observer that exports to the collector in the environment; None without one.

    Args:
        environment: Environment variables.
        keep: Choice of what is kept of prompts and answers; None leaves it to the environment.

    Raises:
        UsageError: An `OTEL_*` variable has an unsupported value.
    """
    settings = with_content(settings_of(environment), keep)
    if not settings.enabled or not settings.endpoint:
        return None
    return SpanObserver(settings=settings, environment=environment)
