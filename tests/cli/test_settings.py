"""Durations and places for traces, as they are typed."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.settings import TraceTarget, seconds, trace_target


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2.0), ("1.5s", 1.5), ("800ms", 0.8), ("3m", 180.0)]
)
def test_seconds(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0", "-1", "2 hours", "s"])
def test_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="no duration above 0"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("jaeger", TraceTarget()),
        ("off", TraceTarget("off")),
        ("otlp", TraceTarget("otlp")),
        ("otlp=http://localhost:4318", TraceTarget("otlp", url="http://localhost:4318")),
        ("file=out/x", TraceTarget("file", folder=Path("out/x"))),
    ],
)
def test_trace_targets(text: str, target: TraceTarget) -> None:
    assert trace_target(text) == target


@pytest.mark.parametrize("text", ["", "jaeger=x", "otlp=localhost:4318", "file=", "zipkin"])
def test_no_trace_target(text: str) -> None:
    with pytest.raises(UsageError, match="names no place for traces"):
        trace_target(text)
