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
from agentrt.base.ids import RunId
from agentrt.protocol.events import Event
from agentrt.telemetry.build import build
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.settings import RUNS_FOLDER, Settings, settings_of
from agentrt.telemetry.span import Trace
from agentrt.telemetry.steps import step_trace

FLUSH_S = 5.0
REMEMBERED_FILES = 1000
_log = logging.getLogger("agentrt.telemetry")


class Exporter(Protocol):
    """Where traces go."""

    def export(self, traces: Sequence[Trace]) -> Path | None:
        """Take the traces of one run; the file, when there is one."""
        ...


class SpanObserver:
    """Collects events and, when a run is over, builds its spans and exports them on a thread.

    While a run goes on, an event costs an append. Nothing here ever raises into the run: what goes
    wrong is told once, in one line.

    Attributes:
        files: The trace file of each of the latest runs.

    Args:
        exporter: Where traces go; None reads `settings`.
        settings: None reads the environment.
        folder: For trace files, when no endpoint is set.
        warn: Told of what went wrong; None logs it.
        environment: In place of the process environment.

    Raises:
        UsageError: An `OTEL_*` variable asks for what there is not.
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
        self._recorder = RunRecorder(self._take)
        self._runs: SimpleQueue[RunRecord | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.files: dict[RunId, Path] = {}

    @property
    def wants_content(self) -> bool:
        """Whether the user asked for what was said; the runtime then puts it on events."""
        return self._settings.enabled and self._settings.capture != "NO_CONTENT"

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events; returns at once."""
        if self._settings.enabled and not self._closed:
            self._recorder.on_events(events)

    def file_of(self, run_id: RunId, timeout_s: float = FLUSH_S) -> Path | None:
        """The trace file of a finished run; None when it goes to a collector or was not written."""
        if run_id not in self.files:
            self.flush(timeout_s)
        return self.files.get(run_id)

    def url_of(self, run_id: RunId) -> str | None:
        """Where the trace of a run can be looked at; None when it goes to a file, or unknown."""
        return self._settings.url_of(run_id)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the traces of all finished runs are handed over, at most `timeout_s`."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._runs.put(done)
        return done.wait(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Export what is left, runs that did not end as well, at most `timeout_s`. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._recorder.give_up()
        if self._thread is not None:
            self._runs.put(None)
            self._thread.join(timeout_s)
        close = getattr(self._exporter, "close", None)
        if close is not None:
            close(timeout_s)

    def _take(self, record: RunRecord) -> None:
        """A run is over: leave the rest to the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="agentrt-traces", daemon=True)
            self._thread.start()
        self._runs.put(record)

    def _work(self) -> None:
        while (found := self._runs.get()) is not None:
            if isinstance(found, threading.Event):
                found.set()
                continue
            try:
                self._export(found)
            except Exception as error:
                self._complain(f"the trace of run {found.run_id} is lost: {error}")

    def _export(self, record: RunRecord) -> None:
        run = build(record, self._settings.capture)
        steps = step_trace(record, run, self._settings.steps_every)
        if self._exporter is None:
            self._exporter = self._open()
        path = self._exporter.export([run, steps] if steps else [run])
        if path is not None:
            self.files[record.run_id] = path
            if len(self.files) > REMEMBERED_FILES:
                del self.files[next(iter(self.files))]

    def _open(self) -> Exporter:
        if not self._settings.endpoint:
            return JaegerFile(self._settings.folder)
        from agentrt.telemetry.otlp import OtlpExport  # 160 ms that only a collector is worth

        return OtlpExport(
            self._settings.endpoint, environment=self._environment, warn=self._complain
        )

    def _complain(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"telemetry: {text}")


def collector_of(environment: Mapping[str, str]) -> SpanObserver | None:
    """An observer that exports to the collector which the environment names; None without one.

    Raises:
        UsageError: An `OTEL_*` variable asks for what there is not.
    """
    settings = settings_of(environment)
    if not settings.enabled or not settings.endpoint:
        return None
    return SpanObserver(settings=settings, environment=environment)
