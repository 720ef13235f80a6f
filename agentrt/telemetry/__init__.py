"""Traces of finished runs, as OpenTelemetry spans with GenAI names, and their transcripts."""

from agentrt.telemetry.build import build
from agentrt.telemetry.jaeger_file import JaegerFile
from agentrt.telemetry.observer import SpanObserver, collector_of
from agentrt.telemetry.settings import (
    RUNS_FOLDER,
    Settings,
    runs_folder,
    settings_of,
    with_content,
)
from agentrt.telemetry.span import Span, SpanEvent, Trace
from agentrt.telemetry.transcript_observer import TranscriptObserver, transcripts_of

__all__ = [
    "RUNS_FOLDER",
    "JaegerFile",
    "Settings",
    "Span",
    "SpanEvent",
    "SpanObserver",
    "Trace",
    "TranscriptObserver",
    "build",
    "collector_of",
    "runs_folder",
    "settings_of",
    "transcripts_of",
    "with_content",
]
