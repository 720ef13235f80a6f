"""The observer that turns finished runs into traces."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from agentrt.analysis import RunRecord, RunRecorder
from agentrt.base.content_config import ContentChoice
from agentrt.base.ids import RunId
from agentrt.protocol.events import Event
from agentrt.telemetry.build import build
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.settings import RUNS_FOLDER, Settings, settings_of, with_content
from agentrt.telemetry.span import Trace
from agentrt.telemetry.steps import step_trace

FLUSH_S = 5.0
MAX_REMEMBERED = 1000
_log = logging.getLogger("agentrt.telemetry")


class Exporter(Protocol):
    """Destination of traces."""

    def export(self, traces: Sequence[Trace]) -> Path | None:
        """Export the traces of one run; returns the file, if there is one."""


class SpanObserver:
    """Collects events; when a run ends, builds its spans and exports them in a thread.

    During a run, an event costs an append. Nothing here ever raises into the run: an error is
    reported once, in one line.

    Attributes:
        files: Trace file of each of the latest runs.

    Args:
        exporter: Destination of traces; None follows `settings`.
        settings: Settings; None reads the environment.
        folder: Folder of trace files, if no endpoint is set.
        warn: Reports an error; None logs it.
        environment: Replacement of the process environment.

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
    ) -> None:
        environment = os.environ if environment is None else environment
        self._settings = settings or settings_of(environment, folder)
        self._warn = warn or _log.warning
        self._warned = False
        self._exporter = exporter
        self._environment = environment
        self._recorder = RunRecorder(self._enqueue)
        self._runs: SimpleQueue[RunRecord | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.files: dict[RunId, Path] = {}

    @property
    def wants_content(self) -> bool:
        """Whether the user enabled message content; the runtime then adds it to events."""
        return self._settings.enabled and self._settings.capture != "NO_CONTENT"

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events; returns at once."""
        if self._settings.enabled and not self._closed:
            self._recorder.on_events(events)

    def file_of(self, run_id: RunId, timeout_s: float = FLUSH_S) -> Path | None:
        """The trace file of a finished run; None if it went to a collector or was not written."""
        if run_id not in self.files:
            self.flush(timeout_s)
        return self.files.get(run_id)

    def url_of(self, run_id: RunId) -> str | None:
        """Address of a page with the trace of a run; None if it is in a file, or unknown."""
        return self._settings.url_of(run_id)

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
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentrt-traces", daemon=True)
            self._thread.start()
        self._runs.put(record)

    def _run(self) -> None:
        while (found := self._runs.get()) is not None:
            if isinstance(found, threading.Event):
                found.set()
                continue
            try:
                self._export(found)
            except Exception as error:
                self._warn_once(f"the trace of run {found.run_id} is lost: {error}")

    def _export(self, record: RunRecord) -> None:
        run = build(record, self._settings.capture)
        steps = step_trace(record, run, self._settings.steps_every)
        if self._exporter is None:
            self._exporter = self._open()
        path = self._exporter.export([run, steps] if steps else [run])
        if path is not None:
            self.files[record.run_id] = path
            if len(self.files) > MAX_REMEMBERED:
                del self.files[next(iter(self.files))]

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
