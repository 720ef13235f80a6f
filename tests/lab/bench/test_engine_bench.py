"""The bench from the command line, over a model of two layers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.main import answer
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.bench.engine import sweep
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.result import PointResult
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.errors import BenchFailed

MICRO = [
    *("bench", "engine", "--shape", "micro", "--kernels", "torch", "--threads", "1"),
    *("--batch", "2", "--prompt", "40", "--new", "6", "--dtype", "float32", "--quick"),
]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One for all tests: the checkpoint is written once, and held to transformers once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.slow
def test_a_sweep_prints_a_table_and_writes_every_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / "bench.json"
    assert answer([*MICRO, "--shared", "32", "--json", str(path)]) == 0
    told = capsys.readouterr()
    assert "B=2 prompt=72 shared=32 float32" in told.out
    assert "ceilings at 1 threads" in told.out
    found = json.loads(path.read_text("utf-8"))
    (row,) = found["rows"]
    (arm,) = row["arms"]
    assert arm["settings"]["kernels"] == "torch"
    assert len(arm["samples"]) == 2
    for sample in arm["samples"]:
        assert sample["output_tokens"] == [6, 6]
        assert sample["cached_tokens"] == 32  # the second sequence finds the shared pages
        assert 0 < sample["decode_steps"] <= 5
    assert arm["samples"][0]["output_hash"] != arm["samples"][1]["output_hash"]


def test_rows_are_kept_when_a_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def of_point(point: SweepPoint, *_: object) -> PointResult:
        measured.append(point.name)
        if len(measured) == 2:
            raise BenchFailed("an arm is gone")
        return PointResult(point=point, arms=(), probes={}, ceilings=())

    monkeypatch.setattr(sweep, "_measure_point", of_point)
    path = tmp_path / "bench.json"
    wide = [*MICRO, "--batch", "1,2,3", "--json", str(path)]
    assert answer(wide) != 0
    assert "an arm is gone" in capsys.readouterr().err
    (row,) = json.loads(path.read_text("utf-8"))["rows"]
    assert row["batch"] == 1


@pytest.mark.slow
def test_a_constrained_arm_takes_as_many_steps(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    assert answer([*MICRO, "--constrained", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text("utf-8"))["rows"]
    free, held = row["arms"]
    assert (free["name"], held["name"]) == ("agentrt 1t", "constrained 1t")
    for one, other in zip(free["samples"], held["samples"], strict=True):
        assert one["decode_steps"] == other["decode_steps"]
        assert one["output_tokens"] == other["output_tokens"] == [6, 6]
        assert one["output_hash"] != other["output_hash"]
    assert row["ratios"]["constrained"]["decode"] > 0


@pytest.mark.slow
def test_llama_cpp_computes_the_same_function(tmp_path: Path) -> None:
    """The same tokens from the same weights: the file written for it is right."""
    files = peer_files(tmp_path)
    try:
        files.check("llama.cpp")
    except UsageError:
        pytest.skip("no llama.cpp: run `make peers`")
    path = tmp_path / "bench.json"
    assert answer([*MICRO, "--peer", "llama.cpp", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text("utf-8"))["rows"]
    hashes = [[one["output_hash"] for one in arm["samples"]] for arm in row["arms"]]
    assert len(hashes) >= 2
    assert all(one == hashes[0] for one in hashes)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shape", "huge"], "there is no shape 'huge'"),
        (["--batch", "1;2"], "--batch 1;2 is no list"),
        (["--peer", "vllm"], "--peer vllm is not known"),
        (["--dtype", "int3"], "--dtype int3 is not known"),
        (["--device", "cuda", "--peer", "llama.cpp"], "for the CPU only"),
        (["--device", "cuda", "--peer", "openvino"], "for the CPU only"),
        (["--prompt", "999999"], "do not fit"),
    ],
)
def test_a_wrong_flag_is_told(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(["bench", "engine", *flags]) == 2
    assert said in capsys.readouterr().err


def test_peers_that_were_not_made_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTRT_PEERS", str(tmp_path))
    assert answer(["bench", "engine", "--shape", "micro", "--peer", "llama.cpp"]) == 2
    assert "make peers" in capsys.readouterr().err
    assert SHAPES["micro"].name not in [path.name for path in tmp_path.rglob("*.gguf")]
