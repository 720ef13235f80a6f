"""Traces of finished runs, as OpenTelemetry spans with GenAI names."""

from agentrt.base.ids import trace_id_of
from agentrt.telemetry.build import build
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.observer import Exporter, SpanObserver, collector_of
from agentrt.telemetry.settings import RUNS_FOLDER, Settings, settings_of
from agentrt.telemetry.span import Span, SpanEvent, SpanLink, Trace

__all__ = [
    "RUNS_FOLDER",
    "Exporter",
    "JaegerFile",
    "Settings",
    "Span",
    "SpanEvent",
    "SpanLink",
    "SpanObserver",
    "Trace",
    "build",
    "collector_of",
    "settings_of",
    "trace_id_of",
]
