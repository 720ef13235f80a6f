"""Record, trace and latency line of each run."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentrt.analysis import (
    RunRecord,
    RunRecorder,
    Usage,
    latency_line,
    summary,
    trace_line,
    usage,
)
from agentrt.base.clock import Clock
from agentrt.base.content_config import ContentChoice, ContentConfig
from agentrt.base.errors import ErrorRecord, record_of
from agentrt.base.ids import NodeId, RunId
from agentrt.base.trace_context import TraceContext
from agentrt.cli.run_transcripts import RunTranscripts
from agentrt.cli.settings import TraceTarget
from agentrt.cli.trace_files import runs_folder
from agentrt.program import Program
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    Observer,
    RunFinished,
    RunStarted,
)
from agentrt.telemetry import Settings, SpanObserver, settings_of, with_content

COLLECTOR = "http://localhost:4318"


class RunSummary:
    """Records every run, and traces it if requested.

    Args:
        target: Destination of traces.
        batch_id: Id of the batch that the runs belong to; "" outside a batch.
        content: Settings of what is kept of prompts and answers; None takes the default.
        show: Whether what was said is shown.

    Attributes:
        observers: Observers for the runtime.
    """

    def __init__(
        self,
        target: TraceTarget,
        batch_id: str = "",
        *,
        content: ContentConfig | None = None,
        show: bool = False,
    ) -> None:
        content = content or ContentConfig()
        self._records: dict[RunId, RunRecord] = {}
        self._not_begun: set[RunId] = set()
        self._recorder = RunRecorder(self._add_record)
        settings = None
        if target.kind != "off":
            settings = trace_settings(target, batch_id, content.keep)
        if content.keep is None:
            is_traced = settings is not None and settings.enabled
            content = replace(content, keep="transcript" if is_traced else "off")
        self._transcripts = RunTranscripts(
            target.folder or runs_folder(), content, batch_id=batch_id, show=show, warn=warn
        )
        self._endpoint = settings.endpoint if settings else ""
        self._spans = SpanObserver(settings=settings, warn=warn) if settings else None
        self.observers: list[Observer] = [self._recorder]
        if self._spans is not None:
            self.observers.append(self._spans)
        if self._transcripts.observer is not None:
            self.observers.append(self._transcripts.observer)

    def line(self, run_id: RunId) -> str:
        """The latency line of a finished run, with the location of its trace; "" if unknown."""
        record, location = self._records.get(run_id), self._trace_location(run_id)
        if run_id in self._not_begun:  # nothing took time
            trace_id = (record or RunRecord(run_id)).trace_id
            return trace_line(trace_id, location) if location else ""
        return latency_line(record, location) if record else ""

    def tree(self, run_id: RunId, width: int, encoding: str | None) -> str:
        """Tree of a finished run with all of its nodes, as lines; "" if unknown."""
        from agentrt.cli.run_tree.from_record import tree_of_record
        from agentrt.cli.run_tree.glyphs import glyphs_for
        from agentrt.cli.run_tree.layout import tree_text

        record = self._records.get(run_id)
        tree = tree_of_record(record, with_savings=True) if record else None
        return tree_text(tree, width, glyphs_for(encoding)) if tree is not None else ""

    def usage_of(self, run_id: RunId) -> Usage:
        """Tokens of a run; none if it is unknown."""
        return usage(self._records.get(run_id) or RunRecord(run_id))

    def record_of(self, run_id: RunId) -> RunRecord | None:
        """The record of a finished run, if known."""
        return self._records.get(run_id)

    def summary(self, run_id: RunId, output: Any, error: ErrorRecord | None) -> dict[str, Any]:
        """The `agentrt.run/1` object of a finished run."""
        record = self._records.get(run_id) or RunRecord(run_id)
        file = self._spans.file_of(run_id) if self._spans else None
        url = self._spans.url_of(run_id) if self._spans else None
        return summary(record, output, trace_file=file, trace_url=url, error=error)

    def failed_start(
        self,
        run_id: RunId,
        program: Program[..., Any],
        clock: Clock,
        error: Exception,
        caller: TraceContext | None = None,
    ) -> None:
        """Record a run whose engine did not start."""
        self._not_begun.add(run_id)
        now_s, what = clock.now_s(), record_of(error)
        root = NodeId(f"{program.name}#0")
        started = RunStarted(
            run_id, program.name, program.source, now_s, clock.unix_ns(), caller=caller
        )
        events: list[Event] = [
            started,
            NodeDeclared(run_id, root, "program", program.name, None, (), program.source, now_s),
            NodeFinished(run_id, root, "failed", now_s, error=what),
            RunFinished(run_id, "failed", now_s, what),
        ]
        for observer in self.observers:
            observer.on_events(events)

    def close(self) -> None:
        """Write what is left, unfinished runs included."""
        self._recorder.finish_open()
        self._transcripts.close()
        if self._spans is not None:
            self._spans.close()

    def show(self, run_id: RunId) -> None:
        """Print what was said in a run that has ended, where asked for."""
        self._transcripts.show(run_id)

    def transcript_of(self, run_id: RunId) -> Path | None:
        """The transcript of a run that has ended; None if none is kept."""
        return self._transcripts.kept_file(run_id)

    def forget(self) -> None:
        """Remove transcripts that are not kept; nothing can be shown any more."""
        self._transcripts.forget()

    def _add_record(self, record: RunRecord) -> None:
        self._records[record.run_id] = record

    def _trace_location(self, run_id: RunId) -> str | None:
        """Location of the trace of a run; None if runs are not traced."""
        if self._spans is None:
            return None
        file = self._spans.file_of(run_id)
        return str(file) if file else self._spans.url_of(run_id) or self._endpoint


def trace_settings(
    target: TraceTarget, batch_id: str = "", content: ContentChoice | None = None
) -> Settings:
    """Telemetry settings for the target; the environment's `OTEL_*` complete them."""
    settings = settings_of(os.environ, target.folder or runs_folder())
    settings = replace(settings, batch_id=batch_id)
    settings = with_content(settings, content)
    if target.kind == "file":
        settings = replace(settings, endpoint="")
    elif target.kind == "otlp" and (target.url or not settings.endpoint):
        base = (target.url or COLLECTOR).rstrip("/")
        endpoint = base if base.endswith("/v1/traces") else f"{base}/v1/traces"
        settings = replace(settings, endpoint=endpoint)
    return settings


def warn(text: str) -> None:
    """Report an error of telemetry, which does not affect the run."""
    sys.stderr.write(text + "\n")
