"""The bench of adapters from the command line, over a model of two layers."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from agentrt.lab.bench.adapters.result import AdaptersPoint
from agentrt.lab.bench.paired_steps import median_ms

MICRO = ["bench", "adapters", "--shape", "micro", "--threads", "1", "--rank", "2", "--quick"]


@pytest.mark.slow
def test_arms_take_turns_over_one_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "adapters.json"
    flags = ["--adapters", "3", "--batch", "4", "--weights", "checkpoint,int8"]
    assert answer([*MICRO, *flags, "--json", str(path)]) == 0
    assert "several adapters" in capsys.readouterr().out
    points = json.loads(path.read_text("utf-8"))["points"]
    assert [one["weights"] for one in points] == ["checkpoint", "int8"]
    for point in points:
        assert list(point["samples"]) == ["no adapter", "one adapter", "several adapters"]
        assert all(len(samples) == 2 for samples in point["samples"].values())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shape", "micro-mixtral"], "micro"),
        (["--shape", "micro", "--batch", "213"], "more than the 212 tokens of micro"),
        (["--shape", "micro", "--prompt", "4096"], "leaves no token of the 4096 of micro"),
        (["--weights", "int5"], "int5"),
    ],
)
def test_flags_out_of_range_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer([*MICRO[:2], *flags]) != 0
    assert said in capsys.readouterr().err


def test_costs_are_taken_step_by_step() -> None:
    samples = {"one adapter": (1.0, 2.0, 4.0), "several adapters": (3.0, 4.0, 20.0)}
    point = AdaptersPoint("int8", 8, 2, 8, 16, samples, (0.0, 0.0), "2")
    assert point.costs("several adapters", "one adapter") == (2.5, 3.0, 4.0)
    assert median_ms(point.samples["one adapter"]) == 2000.0
