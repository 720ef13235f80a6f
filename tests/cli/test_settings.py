"""Durations and places for traces, as they are typed."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.cli.limits import seconds
from agentrt.cli.main import answer
from agentrt.cli.settings import RunSettings, TraceTarget, trace_target


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


@pytest.mark.parametrize(
    ("text", "value"), [("auto", "auto"), ("off", "off"), ("0", 0), ("1", 1), ("16", 16)]
)
def test_speculative_decoding_is_the_engines(text: str, value: object) -> None:
    engine = RunSettings("job.py", speculate_tokens=text).engine_choice
    assert isinstance(engine, EngineConfig)
    assert engine.speculate_tokens == value


@pytest.mark.parametrize("kept", ["int8", "fp8"])
def test_the_kv_cache_is_the_embedded_engines(
    kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = RunSettings("job.py", kv_cache_dtype=kept).engine_choice
    assert isinstance(engine, EngineConfig)
    assert engine.kv_cache_dtype == kept
    with pytest.raises(UsageError, match="--kv-cache-dtype is for the embedded engine"):
        RunSettings("job.py", kv_cache_dtype=kept, engine="http://gpu:1")
    assert answer(["serve", "--kv-cache-dtype=int5"]) == 2
    assert "--kv-cache-dtype 'int5' is unknown" in capsys.readouterr().err


def test_weights_are_the_embedded_engines(capsys: pytest.CaptureFixture[str]) -> None:
    engine = RunSettings("job.py", weights="int4").engine_choice
    assert isinstance(engine, EngineConfig)
    assert engine.weights == "int4"
    with pytest.raises(UsageError, match="--weights 'int5' is no format"):
        RunSettings("job.py", weights="int5")
    with pytest.raises(UsageError, match="--weights is for the embedded engine"):
        RunSettings("job.py", weights="int8", engine="http://gpu:1")
    assert answer(["serve", "--weights=int5"]) == 2
    assert "--weights 'int5' is no format" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "+1", "many", "AUTO", "", "1.5", "1e3", "nan"])
def test_no_number_of_draft_tokens(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="is no number of tokens"):
        RunSettings("job.py", speculate_tokens=text)
    assert answer(["serve", f"--speculate-tokens={text}"]) == 2
    assert f"--speculate-tokens {text!r} is no number of tokens" in capsys.readouterr().err


def test_a_draft_model_is_the_engines(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("small")
    engine = RunSettings("job.py", speculate_tokens="auto", draft_model=path).engine_choice
    assert isinstance(engine, EngineConfig)
    assert engine.draft_model == path
    with pytest.raises(UsageError, match="drafts nothing with --speculate-tokens off"):
        RunSettings("job.py", draft_model=path)
    with pytest.raises(UsageError, match="--draft-model is for the embedded engine"):
        RunSettings("job.py", engine="http://localhost:1", draft_model=path)
    assert answer(["serve", "--draft-model=small"]) == 2
    assert "drafts nothing with --speculate-tokens off" in capsys.readouterr().err


def test_a_server_speculates_by_its_own_settings() -> None:
    with pytest.raises(UsageError, match="is for the embedded engine"):
        RunSettings("job.py", engine="http://localhost:1", speculate_tokens="auto")


def test_memory_for_experts_is_the_embedded_engines(capsys: pytest.CaptureFixture[str]) -> None:
    engine = RunSettings("job.py", expert_memory="2GiB").engine_choice
    assert isinstance(engine, EngineConfig)
    assert engine.expert_memory == "2GiB"
    with pytest.raises(UsageError, match="--expert-memory is for the embedded engine"):
        RunSettings("job.py", expert_memory="2GiB", engine="http://gpu:1")
    for command in ("serve", "doctor"):
        assert answer([command, "--expert-memory=much"]) == 2
        assert "--expert-memory 'much' is no size" in capsys.readouterr().err
