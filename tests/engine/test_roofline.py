"""The machine's own rates, measured apart from what runs here."""

import subprocess
from typing import Any

import pytest

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.ops import roofline as measured
from agentrt.engine.process.roofline import Roofline, measured_roofline


def test_rates_are_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "_CPU_READ_BYTES", 1 << 12)
    monkeypatch.setattr(measured, "_CPU_EDGE", 8)
    found = measured.roofline("cpu", "float32")
    assert min(found.values()) > 0


def answering(monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code, out, err)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_a_process_of_its_own_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, 0, '{"read_bytes_s": 2.0, "flops_s": 3.0, "threads": 1}', "")
    assert measured_roofline("cpu", "bfloat16") == Roofline(2.0, 3.0, 1)
    assert asked[0][-3:] == ["agentrt.engine.ops.roofline", "cpu", "bfloat16"]


def test_a_process_that_fails_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 1, "", "Traceback\nno such dtype")
    with pytest.raises(EngineUnavailable, match="no such dtype"):
        measured_roofline("cpu", "float3")
