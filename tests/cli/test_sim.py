"""`agentrt sim`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer

SMALL = ["--programs", "12", "--workload", "react", "--scale", "output=0.05,count=0.3"]


def test_one_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert answer(["sim", "run", *SMALL, "--kv-tokens", "4096", "--json", str(path)]) == 0
    told = json.loads(path.read_text("utf-8"))
    assert told["arm"] == "rwa"
    assert told["mean_latency_s"] > 0
    assert "mean_slowdown" in capsys.readouterr().out


def test_one_run_with_memory_of_the_host(tmp_path: Path) -> None:
    told = []
    for tokens in ("0", "32768"):
        path = tmp_path / f"{tokens}.json"
        flags = ["--kv-tokens", "240", "--host-kv-tokens", tokens, "--policy", "fcfs"]
        assert answer(["sim", "run", *SMALL, *flags, "--rate", "8", "--json", str(path)]) == 0
        told.append(json.loads(path.read_text("utf-8")))
    without, with_host = told
    assert without["host_hit"] == without["copying"] == without["mean_kv_reload_s"] == 0
    assert 0 < with_host["host_hit"] < with_host["cache_hit"]
    assert 0 < with_host["copying"] < 0.1
    assert with_host["mean_kv_reload_s"] > 0
    assert with_host["mean_prefill_s"] < without["mean_prefill_s"]


def test_costs_from_a_measurement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    measured = Path(__file__).parents[2] / "traces" / "bench" / "half-hf.json"
    path = tmp_path / "costs.json"
    assert answer(["sim", "fit", str(measured), "--out", str(path)]) == 0
    told = json.loads(path.read_text("utf-8"))
    assert told["about"]["model"] == "half"
    assert told["about"]["measured_by_computed"]
    assert told["kv_token_bytes"] == 2 * 24 * 4 * 64 * 2
    assert told["copy_token_s"] == pytest.approx(told["kv_token_bytes"] / 20e9)
    assert answer(["sim", "run", *SMALL, "--costs", str(path)]) == 0
    assert answer(["sim", "run", *SMALL, "--costs", str(path), "--host-kv-tokens", "99"]) == 0
    capsys.readouterr()


def test_a_fleet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, page = tmp_path / "fleet.json", tmp_path / "fleet.html"
    command = ["sim", "fleet", "--programs", "60", "--engines", "2", "--library", "12"]
    command += ["--workload", "react", "--costs", "half-cpu", "--compared", "12"]
    command += ["--json", str(path), "--html", str(page)]
    assert answer(command) == 0
    told = json.loads(path.read_text("utf-8"))
    assert len(told["against_steps"]) == 3
    assert told["routings"]["program-two-choices"]["mean_s"] > 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "against steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        (["run", "--policy", "best"], "there is no policy 'best'"),
        (["run", "--policy", "fcfs,rwa"], "takes one policy"),
        (["run", "--costs", "nowhere.json"], "cannot read nowhere.json"),
        (["run", "--workload", "poem"], "no shape of programs 'poem'"),
        (["run", "--scale", "width=2"], "--scale width is not known"),
        (["run", "--programs", "3"], "3 programs are too few"),
        (["run", "--kv-tokens", "0"], "--kv-tokens 0 is out of range"),
        (["run", "--rate", "-1"], "--rate -1.0 is out of range"),
        (["run", "--rate", "inf"], "--rate inf is out of range"),
        (["run", "--bursts", "inf"], "--bursts inf is out of range"),
        (["run", "--rate", "nan"], "--rate nan is out of range"),
        (["run", "--rate", "1e-300"], "--rate 1e-300 is out of range"),
        (["run", "--rate", "1e300"], "--rate 1e+300 is out of range"),
        (["run", "--programs", "99999999999"], "--programs 99999999999 is out of range"),
        (["sweep", "--rates", "1e-300"], "--rates 1e-300 is out of range"),
        (["sweep", "--slowdown", "1e300"], "--slowdown 1e+300 is out of range"),
        (["sweep", "--kv-share", "nan"], "--kv-share nan is out of range"),
        (["load", "--rate", "1e-300"], "--rate 1e-300 is out of range"),
        (["load", "--factors", "1,1e300"], "--factors 1e+300 is out of range"),
        (["load", "--factors", "nan"], "--factors nan is out of range"),
        (["load", "--processes", "99999"], "--processes 99999 is out of range"),
        (["fleet", "--load", "1e-300"], "--load 1e-300 is out of range"),
        (["fleet", "--gate-share", "nan"], "--gate-share nan is out of range"),
        (["calibrate", "--out", "x", "--seconds", "inf"], "--seconds inf is out of range"),
        (["validate", "--seconds", "nan"], "--seconds nan is out of range"),
        (["run", "--scale", "time=nan"], "the scale time=nan is out of range"),
        (["run", "--max-running", "0"], "--max-running 0 is out of range"),
        (["run", "--max-running", "99999999999"], "--max-running 99999999999 is out of range"),
        (["run", "--step-tokens", "0"], "--step-tokens 0 is out of range"),
        (["run", "--tenants", "0"], "--tenants 0 is out of range"),
        (["run", "--bursts", "0.5"], "--bursts 0.5 are none"),
        (["run", "--host-kv-tokens", "-1"], "--host-kv-tokens -1 is out of range"),
        (["sweep", "--rates", "fast"], "--rates fast is no rate"),
        (["sweep", "--seeds", "0"], "--seeds 0 is out of range"),
        (["sweep", "--slowdown", "1"], "--slowdown 1.0 is out of range"),
        (["load", "--draws", "0"], "--draws 0 is out of range"),
        (["fleet", "--load", "3"], "--load 3.0 is out of range"),
        (["fleet", "--routing", "random"], "there is no routing 'random'"),
        (["fleet", "--order", "lifo"], "--order lifo is not known"),
        (["calibrate", "--out", "x", "--dtype", "flot32"], "(did you mean float32?)"),
        (["run", "--json", "."], "--json .: is a folder"),
        (["fleet", "--engines", "0"], "--engines 0 is out of range"),
        (["fit", "nowhere.json", "--out", "x.json"], "cannot read nowhere.json"),
        (["validate", "--shapes", "poem"], "no shape of programs 'poem'"),
        (["validate", "--policies", "oracle"], "the engine serves by"),
        (["calibrate", "--out", "x", "--model", ".", "--shape", "micro"], "are two models"),
    ],
)
def test_what_is_refused(flags: list[str], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["sim", *flags]) == 2
    assert wrong in capsys.readouterr().err
