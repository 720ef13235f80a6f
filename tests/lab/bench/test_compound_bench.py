"""The whole bench, small: real processes of our arm, and of a plain client with our server."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.main import answer
from agentrt.lab.bench.compound.command import check
from agentrt.lab.bench.compound.page import html
from agentrt.lab.bench.flags import CompoundFlags

SMALL = "context=0.05,output=0.05,time=0.002,count=0.2,think=0"
POLICIES = ("fcfs+gate", "rwa", "clairvoyant")
COMMAND = [
    *("bench", "compound", "--shape", "micro", "--arms", "agentrt,asyncio+ours", "--quick"),
    *("--shapes", "finance,self-consistency,react", "--scale", SMALL),
]


@pytest.fixture
def asked() -> CompoundFlags:
    return CompoundFlags(shape="micro", arms="agentrt", shapes="finance", threads=1, quick=True)


@pytest.mark.slow
def test_arms_play_equal_programs_and_are_compared(tmp_path: Path) -> None:
    found, shown = tmp_path / "found.json", tmp_path / "found.html"
    files = ["--json", str(found), "--html", str(shown), "--threads", "1"]
    assert answer([*COMMAND, *files]) == 0
    told = json.loads(found.read_text("utf-8"))
    assert told["labels"] == ["finance", "self-consistency", "react"]
    ours, peer = told["arms"]
    assert [ours["name"], peer["name"]] == ["agentrt", "asyncio+ours"]
    for label, mine_played, theirs_played in zip(
        told["labels"], ours["plays"], peer["plays"], strict=True
    ):
        assert mine_played["label"] == theirs_played["label"] == label
        (mine,), (theirs,) = mine_played["programs"], theirs_played["programs"]
        assert mine["name"] == theirs["name"]
        if label != "self-consistency":  # which of a vote are in is an arm's own business
            assert mine["output_tokens"] == theirs["output_tokens"]
        assert sum(mine["split"].values()) == pytest.approx(mine["latency_s"], rel=0.2, abs=0.02)
        assert told["comparison"]["to_best"][label]["value"] > 0
        least = told["bounds"]["shapes"][label]
        assert 0 < least["hardware_s"] < mine["latency_s"]
    react = ours["figures"]["react"]
    assert react["hit_rate"] > 0.3  # chats go on from what was computed
    assert react["work"]["steps"] >= react["work"]["requests"] > 1
    finance = [arm["figures"]["finance"]["work"] for arm in told["arms"]]
    assert [arm["output_tokens"] for arm in finance] == [finance[0]["output_tokens"]] * 2
    page = shown.read_text("utf-8")
    assert page.count("<svg") >= 3
    assert "asyncio+ours" in html(told)


def test_what_is_not_there_is_said(asked: CompoundFlags) -> None:
    check(asked)
    for change, complaint in (
        ({"arms": "asyncio+sglang"}, r"--arms asyncio\+sglang"),
        ({"shapes": "loop"}, "no shape of programs 'loop'"),
        ({"load": "closed"}, "--load closed"),
        ({"policy": "fastest"}, "there is no policy 'fastest'"),
        ({"dtype": "float64"}, "--dtype float64"),
        ({"resume": Path("x.json"), "json_path": Path("y.json")}, "Leave --json out"),
        ({"load": "open", "programs": 9}, "--programs 9"),
        ({"kv_share": 0.3}, "--kv-share"),
    ):
        with pytest.raises(UsageError, match=complaint):
            check(replace(asked, **change))


@pytest.mark.parametrize(
    "arm",
    ["asyncio+llama-server", "asyncio+llama-server-q8_0", "langgraph+ours", "asyncio+transformers"],
)
def test_a_peer_that_was_not_made_is_told_first(
    arm: str, asked: CompoundFlags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_PEERS", str(tmp_path))
    check(replace(asked, arms="agentrt,asyncio+ours"))
    with pytest.raises(UsageError, match="make peers"):
        check(replace(asked, arms=f"agentrt,{arm}"))


@pytest.mark.slow
def test_plays_are_continued_by_another_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second part plays the arm that is missing, and no other; a third finds nothing to do."""
    file = tmp_path / "found.json"
    command = ["bench", "compound", "--shape", "micro", "--shapes", "extraction", "--quick"]
    command += ["--scale", SMALL, "--threads", "1", "--resume", str(file)]
    assert answer([*command, "--arms", "agentrt"]) == 0
    first = json.loads(file.read_text("utf-8"))
    assert [arm["name"] for arm in first["arms"]] == ["agentrt"]
    for _ in range(2):
        assert answer([*command, "--arms", "agentrt,asyncio+ours"]) == 0
    told = json.loads(file.read_text("utf-8"))
    assert told["arms"][0]["plays"] == first["arms"][0]["plays"]
    assert [part["arms"] for part in told["parts"]] == [["agentrt"], ["asyncio+ours"], []]
    assert told["comparison"]["peers"]["asyncio+ours"]["programs"] == {"extraction": 1}
    assert told["bounds"] == first["bounds"]
    assert "0 plays left" in capsys.readouterr().err
    again = ["output=0.1" if part == SMALL else part for part in command]
    assert answer([*again, "--arms", "agentrt"]) == 2
    assert "found.json: scale: context differs" in capsys.readouterr().err


@pytest.mark.slow
def test_policies_are_compared_where_a_plain_engine_is_slow(tmp_path: Path) -> None:
    found, shown = tmp_path / "found.json", tmp_path / "found.html"
    command = [
        *("bench", "compound", "--shape", "micro", "--arms", "agentrt", "--quick"),
        *("--scale", SMALL, "--threads", "1", "--tenants", "2", "--load", "open", "--rate", "50"),
        *("--programs", "10", "--kv-share", "0.9", "--resume", str(found)),
    ]
    assert answer([*command, "--policy", "fcfs+gate,rwa"]) == 0
    first = json.loads(found.read_text("utf-8"))
    everything = [*command, "--policy", ",".join(POLICIES), "--html", str(shown)]
    assert answer(everything) == 0
    told = json.loads(found.read_text("utf-8"))
    assert told["load"]["found"] == first["load"]["found"], "a rate is not searched again"
    assert [arm["plays"] for arm in told["arms"][:2]] == [arm["plays"] for arm in first["arms"]]
    assert len(told["load"]["verdicts"]) == 5
    assert answer([*everything, "--plays", "1", "--tenants", "3"]) == 2
    assert str(tmp_path) not in found.read_text("utf-8")
    load = told["load"]
    assert [arm["name"] for arm in told["arms"]] == [f"agentrt:{p}" for p in POLICIES]
    schedulers = [arm["config"]["settings"]["scheduler"] for arm in told["arms"]]
    assert [one["gate_share"] for one in schedulers] == [0.8] * 3
    assert load["kv_tokens"] >= load["largest_tokens"]
    assert len(load["alone_s"]) == 10
    (point,) = load["points"]
    computed = {arm["computed_prompt_tokens"] for arm in point["arms"].values()}
    assert min(computed) >= next(iter(point["arms"].values()))["least_prompt_tokens"] > 0
    assert "Jain" in shown.read_text("utf-8")
    tokens = [
        {one["name"]: one["output_tokens"] for one in arm["plays"][0]["programs"]}
        for arm in told["arms"]
    ]
    assert tokens[0] == tokens[1] == tokens[2]


def test_a_rate_is_a_number_or_auto(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["bench", "compound", "--load", "open", "--rate", "much"]) == 2
    assert "--rate much is no rate" in capsys.readouterr().err


def test_a_factor_has_a_name_and_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["bench", "compound", "--scale", "output"]) == 2
    assert "--scale output is no list of factors" in capsys.readouterr().err
