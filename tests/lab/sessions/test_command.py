"""The command: flags that are refused, plays at a URL, and plays of engines that it starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.config import EngineConfig
from agentrt.cli.main import answer
from tests.lab.sessions.made_wheel import growing, made_wheel

Command = list[str]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    wheel = made_wheel(tmp_path / "made.whl")
    return ["bench", "sessions", "--wheel", str(wheel), "--trace", "made-v1", "--waits", "0"]


def found_by(command: Command, path: Path) -> dict[str, Any]:
    assert answer([*command, "--json", str(path)]) == 0
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--engine", "sglang"], "--engine sglang is not known"),
        (["--trace", "weeds"], "--trace weeds is not known"),
        (["--rate", "fast"], "--rate fast is no list of rates"),
        (["--rate", "0.5,-1"], "is no list of rates"),
        (["--rate", "1e-300"], "--rate 1e-300 is out of range"),
        (["--first", "nan"], "--first nan is out of range"),
        (["--agents", "1"], "--agents 1 is out of range"),
        (["--share", "1.5"], "--share 1.5 is out of range"),
        (["--most-output", "-1"], "--most-output -1 is out of range"),
        (["--dtype", "int4"], "--dtype int4 is not known"),
        (["--shape", "embedded", "--window", "9999"], "has a window of its own"),
        (["--engine", "http://localhost/v1", "--api-key", "secret"], "--api-key is not a ref"),
        (["--engine", "http://localhost/v1", "--trace", "drawn"], "need a window"),
        (["--wheel", "none.whl"], "there is no wheel none.whl"),
    ],
)
def test_a_wrong_flag_is_refused(
    flags: Command, said: str, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer([*command, *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_server_at_a_url_is_played(
    command: Command,
    tiny: EngineConfig,
    own_server_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    loads = ["--rate", "100", "--agents", "3", "--first", "60", "--speed", "0.001"]
    flags = ["--engine", own_server_url, "--codec", str(tiny.model_path)]
    found = found_by([*command, *flags, *loads], tmp_path / "found.json")
    assert found["schema"] == "agentrt.bench.sessions/1"
    assert found["slo"] == {"first_token_s": 60, "tokens_a_second": 0.001, "share": 0.95}
    assert str(tmp_path) not in json.dumps(found)
    (arm,) = found["arms"]
    alone, load = arm["plays"]
    assert [agent["session"] for agent in alone["agents"]] == ["garden", "drift"]
    assert [agent["session"] for agent in load["agents"]] == ["garden#1", "drift#1", "garden#2"]
    assert alone["figures"]["cached_by_ideal"] >= 1
    for play, turns in ((alone, 5), (load, 8)):
        assert play["figures"]["turns"] == play["figures"]["exact_outputs"] == turns
        assert sum(len(agent["turns"]) for agent in play["agents"]) == turns
    assert arm["sustained"]["bound"] == "at least"
    printed = capsys.readouterr().out
    assert f"{own_server_url}, one agent at a time: 5 of 5 turns" in printed
    assert "100 agents a second: 8 of 8 turns" in printed
    assert "sustains at least" in printed


def test_without_a_codec_the_ideal_is_estimated(
    command: Command, own_server_url: str, tmp_path: Path
) -> None:
    flags = ["--engine", own_server_url, "--trace", "garden", "--most-turns", "2"]
    found = found_by([*command, *flags], tmp_path / "found.json")
    (play,) = found["arms"][0]["plays"]
    first, second = play["agents"][0]["turns"]
    assert len(play["agents"]) == 1
    assert first["ideal_tokens"] < second["ideal_tokens"]
    assert 0.5 < second["ideal_tokens"] / second["prompt_tokens"] < 0.9
    assert "sustained" not in found["arms"][0]


def test_an_agent_that_fails_fails_the_command(
    command: Command, own_server_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = growing()
    rows[1]["messages"][1] = {"role": "user", "content": "word " * 5000}
    wheel = made_wheel(tmp_path / "long.whl", {"garden": rows})
    path = tmp_path / "found.json"
    flags = ["--engine", own_server_url, "--trace", "garden", "--wheel", str(wheel)]
    assert answer([*command, *flags, "--json", str(path)]) == 5
    assert "1 agents failed" in capsys.readouterr().err
    figures = json.loads(path.read_text("utf-8"))["arms"][0]["plays"][0]["figures"]
    assert (figures["turns"], figures["played_turns"]) == (3, 1)


def test_an_engine_that_does_not_answer_is_not_measured(
    command: Command, own_server_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer([*command, "--engine", own_server_url, "--model", "other"]) == 5
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.slow
def test_engines_that_are_started_answer_the_same(command: Command, tmp_path: Path) -> None:
    flags = ["--engine", "own,ours", "--shape", "micro", "--kv-tokens", "8192", "--threads", "1"]
    found = found_by([*command, *flags], tmp_path / "found.json")
    own, ours = (arm["plays"][0] for arm in found["arms"])
    assert found["model"]["window_tokens"] == 65_536
    assert found["arms"][1]["about"]["width"] == 0  # agents do not know of each other
    assert own["figures"]["cached_by_ideal"] == 1
    assert ours["figures"]["cached_by_ideal"] == 1
    for one, other in zip(own["agents"], ours["agents"], strict=True):
        hashes = [[turn["output_hash"] for turn in agent["turns"]] for agent in (one, other)]
        assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_drawn_sessions_are_played(command: Command, tmp_path: Path) -> None:
    flags = ["--trace", "drawn", "--shape", "micro", "--window", "4096", "--most-output", "4"]
    limits = ["--most-turns", "6", "--kv-tokens", "16384", "--threads", "1"]
    load = ["--rate", "2", "--agents", "2"]
    found = found_by([*command, *flags, *limits, *load], tmp_path / "found.json")
    (alone, _) = found["arms"][0]["plays"]
    assert alone["figures"]["cached_by_ideal"] > 0.95
    assert alone["figures"]["exact_outputs"] == alone["figures"]["turns"]
