"""The bench of experts from the command line, over a model of two layers."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from agentrt.lab.bench.experts.result import ExpertsPoint
from agentrt.lab.bench.paired_steps import median_ms

MICRO = [
    *("bench", "experts", "--shape", "micro-mixtral", "--threads", "1", "--batch", "2"),
    *("--prompt", "20", "--new", "4", "--quick"),
]


@pytest.mark.slow
def test_all_arms_take_turns_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "experts.json"
    more = ["--weights", "checkpoint,int8", "--memory", "100KB", "--json", str(path)]
    assert answer([*MICRO, *more]) == 0
    told, progress = capsys.readouterr()
    arms = [
        *("ours bfloat16", "ours bfloat16 in 100KB", "ours int8", "ours int8 in 100KB"),
        *("transformers grouped_mm", "transformers eager"),
    ]
    assert all(arm in told for arm in arms)
    turns = 3 * len(arms)  # two rounds, after one that warms up
    paces = [line.rpartition("; ")[2] for line in progress.splitlines() if " a step; " in line]
    assert [one.partition(",")[0] for one in paces] == [
        f"{done}/{turns} turns" for done in range(1, turns + 1)
    ]
    (point,) = json.loads(path.read_text("utf-8"))["points"]
    assert list(point["samples"]) == arms
    assert all(len(samples) == 2 for samples in point["samples"].values())
    assert point["threads"] == 1
    assert point["versions"].keys() == {"torch", "transformers"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shape", "micro"], "micro-mixtral"),
        (["--weights", "int5"], "int5"),
        (["--memory", "1GB,little"], "--memory 'little' is no size"),
        (["--others", "batched_mm,quick"], "--others quick is not known"),
        (["--prompt", "4096"], "do not fit the 4096 of micro-mixtral"),
    ],
)
def test_flags_out_of_range_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer([*MICRO[:-1], *flags]) != 0
    assert said in capsys.readouterr().err


def test_ratios_are_taken_round_by_round() -> None:
    samples = {"ours int8": (1.0, 2.0, 4.0), "transformers grouped_mm": (3.0, 4.0, 20.0)}
    result = ExpertsPoint(16, 2, "transformers grouped_mm", samples, (0.0, 0.0), {})
    found = result.ratios("ours int8")
    assert (found.least, found.middle, found.most) == (2.0, 3.0, 5.0)
    assert median_ms(result.samples["ours int8"]) == 2000.0


def test_the_sweep_of_the_engine_takes_a_size_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    bench = ["bench", "engine", "--shape", "micro-mixtral", "--expert-memory", "much", "--quick"]
    assert answer(bench) == 2
    assert "--expert-memory 'much' is no size of memory" in capsys.readouterr().err
