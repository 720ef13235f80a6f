"""Plays of several parts of a bench: what is left, how long it takes, and what cannot go on."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, RoundKey, rounds_of_one
from agentrt.lab.bench.compound.play_log import PlayLog, left_in_words, read_log
from agentrt.lab.bench.flags import COMPOUND_FILE
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES
from agentrt.lab.workloads.text import KeySpeller

DRAWING = ProgramDraw(Scale(), SIZES, 0, KeySpeller([" abc", " abd", " abe"]), 32_768)
IDENTITY = {"machine": {"processor": "some", "cores": 2}, "code": "abc", "kv_tokens": 1024}


@pytest.fixture
def rounds() -> list[Round]:
    return rounds_of_one(["extraction", "finance"], 2, 2, DRAWING)


def played(key: RoundKey, took_s: float = 3.0) -> PlayedRound:
    program = PlayedProgram(
        name=f"{key}", shape=key[0], tenant="", latency_s=1.0, tools_s=0.0, prompt_tokens=3,
        cached_tokens=None, output_tokens={"call": 4}, output_hash="x", wasted_tokens=None,
        split={"decode": 1.0}, arrived_s=0.0, ended_s=1.0, kept_tokens=None,
    )  # fmt: skip
    return PlayedRound(*key, (program,), took_s=took_s)


def file_of(log: PlayLog, path: Path) -> Path:
    arms = [
        {
            "name": name,
            **log.arms[name],
            "figures": {},
            "plays": [asdict(play) for play in samples.plays],
        }
        for name, samples in log.samples.items()
    ]
    found: dict[str, Any] = {"schema": COMPOUND_FILE.schema, "identity": log.identity, "arms": arms}
    found |= {name: getattr(log, name) for name in ("choices", "reaches", "bounds", "parts")}
    path.write_text(json.dumps(found), "utf-8")
    return path


def test_each_round_is_a_program_of_its_own_and_plays_differ_in_text(rounds: list[Round]) -> None:
    warm, counted = rounds[:2], rounds[2:]
    assert not any(one.counts for one in warm)
    assert [one.key for one in counted[:4]] == [
        ("extraction", 1, 0), ("finance", 1, 0), ("extraction", 2, 0), ("finance", 2, 0)
    ]  # fmt: skip
    first, again = (
        next(one for one in counted if one.key == ("finance", 1, play)) for play in (0, 1)
    )
    (program,), (other,) = first.programs, again.programs
    assert program.name != other.name
    assert [call.output_tokens for call in program.calls()] == [
        call.output_tokens for call in other.calls()
    ]
    (line,), (next_line,) = first.lines("arm"), again.lines("arm")
    own, shared = (1, 0), (0, 0)  # the question is the program's, the system text is the shape's
    for (message, part), equal in ((own, False), (shared, True)):
        texts = [str(one["nodes"][0]["messages"][message][1][part]) for one in (line, next_line)]  # type: ignore[typeddict-item]
        assert (texts[0] == texts[1]) is equal


def test_earlier_runs_warm_up_with_programs_that_do_not_count() -> None:
    rounds = rounds_of_one(["finance"], 2, 2, DRAWING, warmups=3)
    assert [(one.key, one.counts) for one in rounds] == [
        *((("finance", draw, 0), False) for draw in (0, 1, 2)),
        *((("finance", draw, play), True) for play in (0, 1) for draw in (3, 4)),
    ]
    names = [program.name for one in rounds for program in one.programs]
    assert len(set(names)) == len(names)


def test_what_is_played_is_not_left_and_warms_nothing(rounds: list[Round]) -> None:
    log = PlayLog(IDENTITY)
    assert log.left("a", rounds) == rounds
    for one in rounds:
        if one.label == "finance" and one.counts:
            log.add("a", played(one.key), [])
    assert {one.label for one in log.left("a", rounds)} == {"extraction"}
    assert log.left("b", rounds) == rounds
    for one in rounds:
        if one.label == "extraction" and one.counts:
            log.add("a", played(one.key), [])
    assert log.left("a", rounds) == []


def test_a_load_warms_up_for_all_that_is_left(rounds: list[Round]) -> None:
    warm = Round("warm", rounds[0].workload, DRAWING.spell, counts=False)
    log = PlayLog(IDENTITY)
    assert log.left("a", [warm, rounds[2]]) == [warm, rounds[2]]
    log.add("a", played(rounds[2].key), [])
    assert log.left("a", [warm, rounds[2]]) == []


def test_a_file_is_gone_on_with_and_every_play_is_told(tmp_path: Path) -> None:
    written: list[int] = []
    log = PlayLog(IDENTITY, arms={"a": {"config": {"threads": 1}, "about": {}}})
    log.on_play = lambda: written.append(len(log.of("a").plays))
    for draw in (1, 2):
        log.add("a", played(("finance", draw, 0)), [])
    assert written == [1, 2]
    log.reaches["ours"] = {"share": 1.0}
    again = read_log(file_of(log, tmp_path / "x.json"), IDENTITY)
    assert again.samples["a"].plays == log.samples["a"].plays
    assert (again.reaches, again.arms) == (log.reaches, log.arms)
    assert again.round_keys() == [("finance", 1, 0), ("finance", 2, 0)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"code": "other"}, "x.json: code differs from earlier plays: abc there, other now"),
        ({"machine": {"processor": "other", "cores": 2}}, "x.json: machine: processor differs"),
        ({"kv_tokens": 2048}, "x.json: kv_tokens differs"),
        ({"seed": 1}, "x.json: seed differs from earlier plays: None there, 1 now"),
    ],
)
def test_another_machine_code_or_scale_is_refused(
    change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    file = file_of(PlayLog(IDENTITY), tmp_path / "x.json")
    with pytest.raises(UsageError, match=complaint) as raised:
        read_log(file, {**IDENTITY, **change})
    assert raised.value.hint == "Measure into another file, or repeat what FILE was measured with"


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"schema": "agentrt.bench.compound/1"}', "utf-8")
    with pytest.raises(UsageError, match=r"does not hold agentrt\.bench\.compound/2"):
        read_log(tmp_path / "x.json", IDENTITY)


def test_an_arm_with_other_settings_is_refused_and_a_new_one_is_not() -> None:
    log = PlayLog(IDENTITY, arms={"a": {"config": {"threads": 1, "env": {}}, "about": {}}})
    log.check_arm("a", {"threads": 1, "env": {}})
    log.check_arm("b", {"threads": 2})
    with pytest.raises(UsageError, match="arm a: threads differs from earlier plays: 1 there"):
        log.check_arm("a", {"threads": 2, "env": {}})


def test_what_is_left_takes_as_long_as_its_like(rounds: list[Round]) -> None:
    log = PlayLog(IDENTITY)
    log.add("a", played(("finance", 1, 0), took_s=60.0), [])
    log.add("a", played(("finance", 2, 0), took_s=120.0), [])
    assert log.expected_s("a", "finance") == log.expected_s("b", "finance") == 90.0
    log.add("b", played(("finance", 1, 0), took_s=30.0), [])
    assert log.expected_s("b", "finance") == 30.0
    left = [("a", rounds[1]), ("b", rounds[1]), ("a", rounds[0])]
    assert left_in_words(log, left) == ("3 plays left, about 2.0 min and 1 plays of unknown length")
