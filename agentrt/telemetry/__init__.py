"""Traces of finished runs, as OpenTelemetry spans with GenAI names."""

from agentrt.telemetry.build import build
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.observer import SpanObserver, collector_of
from agentrt.telemetry.settings import RUNS_FOLDER, Settings, settings_of
from agentrt.telemetry.span import Span, SpanEvent, Trace

__all__ = [
    "RUNS_FOLDER",
    "JaegerFile",
    "Settings",
    "Span",
    "SpanEvent",
    "SpanObserver",
    "Trace",
    "build",
    "collector_of",
    "settings_of",
]
