"""`agentrt tune`: the whole command with the embedded model, its file, and its exit codes."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.cli.main import answer

Command = Callable[..., tuple[int, str, str]]
PROGRAM = """
from pathlib import Path
from typing import Literal
from agentrt import chat, program

@program
async def pick(text: str) -> str:
    return await chat("Pick.").user(text).generate(Literal["yes"], max_tokens=8)

@program
async def noted(text: str) -> str:
    with Path("ran").open("a") as file:
        file.write(text + "\\n")
    return await chat("Pick.").user(text).generate(Literal["yes"], max_tokens=8, cache=True)

@program
async def other(text: str) -> str:
    return await chat("Pick.").user(text).generate(Literal["no"], max_tokens=8)
"""
CASES = "".join(
    json.dumps({"inputs": {"text": text}, "expected": "yes"}) + "\n" for text in ("one", "two")
)
SUITE = 'program = "pick.py"\ncases = "cases.jsonl"\n'
LEVER = ("--lever", "max_running=2,4")


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines_in_threads: None) -> Command:
    """`agentrt tune` in the folder of a suite: code, standard output and standard error.

    There is no final unless it is asked for, as it starts each engine several times.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "pick.py").write_text(PROGRAM)
    (folder / "cases.jsonl").write_text(CASES)
    (folder / "suite.toml").write_text(SUITE)
    monkeypatch.chdir(folder)

    def run(*argv: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = answer(["tune", "--suite", ".", "--turns", "0", *argv])
        return code, out.getvalue(), err.getvalue()

    return run


def test_the_chosen_configuration_is_written_and_read(tune: Command) -> None:
    Path("agentrt.toml").write_text("# mine\n[engines.embedded]\nthreads = 1\n")
    argv = (*LEVER, "--slo", "1m", "--format", "json", "--out", "tuned.toml")
    code, out, err = tune(*argv)
    told = json.loads(out)
    assert code == 0, err
    assert [one["config"] for one in told["configs"]] == [
        "baseline",
        "max_running=2",
        "max_running=4",
    ]
    assert all(one["figures"]["score"] == 1 for one in told["configs"])
    assert told["written"] == "tuned.toml"
    choices = next(one["choices"] for one in told["configs"] if one["config"] == told["chosen"])
    file = read_engine_file(Path("tuned.toml"))
    config = EngineSelection("embedded").settings(file, Path("m"))
    wanted = int(choices.get("max_running", 0))
    assert config == EngineConfig(Path("m"), threads=1, max_running=wanted)
    text = Path("tuned.toml").read_text()
    assert text.startswith("# agentrt tune: own, 2 cases, lowest latency_p50, p95 at most 60 s")
    assert "\n# mine\n" in text
    assert Path("agentrt.toml").read_text().startswith("# mine")


def test_nothing_is_written_if_nothing_meets_the_slo(tune: Command) -> None:
    code, out, _ = tune(*LEVER, "--slo", "0.01ms")
    assert code == 6
    assert "nothing keeps the rules; nearest: " in out
    assert "above the SLO of 1e-05 s" in out
    assert not Path("agentrt.toml").exists()


def test_a_program_takes_the_place_of_that_of_the_suite(tune: Command) -> None:
    code, out, _ = tune("pick.py:other", *LEVER, "--fail-if", "accuracy<50%")
    assert (code, "score 0.000" in out) == (6, True)
    assert "the baseline scores 0" in out
    assert tune("pick.py", *LEVER, "--fail-if", "accuracy<50%")[0] == 0


def test_a_file_that_is_there_is_changed_by_force_alone(tune: Command) -> None:
    Path("agentrt.toml").write_text("[engines.own]\nkind = 'vllm'\naddress = 'http://h:1'\n")
    code, out, err = tune(*LEVER)
    assert (code, out, "agentrt.toml is there already" in err) == (2, "", True)
    assert tune(*LEVER, "--force")[0] == 0
    assert list(read_engine_file(Path("agentrt.toml")).engines) == ["own"]


def test_another_file_keeps_what_only_it_has(tune: Command) -> None:
    engine = "kind = 'vllm'\naddress = 'http://h:1'\n"
    Path("agentrt.toml").write_text(f"[engines.own]\n{engine}")
    other = Path("other.toml")
    other.write_text(f"[engines.theirs]\n{engine}[roles]\njudge = 'theirs'\ndefault = 'theirs'\n")
    code, _, err = tune(*LEVER, "--out", "other.toml", "--force")
    assert code == 0, err
    assert "other.toml: kept engines.theirs, roles.judge; written over roles.default\n" in err
    file = read_engine_file(other)
    assert (set(file.engines), file.roles) == ({"own", "theirs"}, {"judge": "theirs"})


def test_a_file_that_cannot_be_kept_is_refused_before_the_search(tune: Command) -> None:
    Path("other.toml").write_text("notes = 1\n")
    code, out, err = tune(*LEVER, "--out", "other.toml", "--force")
    assert (code, out) == (2, "")
    assert "--force keeps the other tables of other.toml, which cannot be read" in err
    assert Path("other.toml").read_text() == "notes = 1\n"


def test_a_search_that_was_cut_off_goes_on(tune: Command) -> None:
    argv = (*LEVER, "--resume", "rows.jsonl", "--out", "tuned.toml", "--force")
    code, out, _ = tune(*argv, "--max-runs", "1")
    assert (code, "--max-runs 1 ended the search" in out) == (5, True)
    code, out, _ = tune(*argv, "--max-runs", "4")
    assert (code, "--max-runs 4 ended the search" in out) == (0, True)
    assert "chosen: baseline" not in out or "as far as the search came" in out
    code, out, err = tune(*argv)
    assert (code, "own: 2 cases, 3 configurations, 8 runs" in out) == (0, True)
    assert "max_running=2" not in "".join(err.splitlines(keepends=True)[:1])
    assert "baseline: " not in err
    assert tune(*argv)[2] == ""


def test_each_start_is_warmed_up_and_no_answer_comes_from_a_cache(tune: Command) -> None:
    code, _, err = tune("pick.py:noted", "--lever", "max_running=2", "--resume", "rows.jsonl")
    assert code == 0, err
    first, beside, back = ["one", "one", "two"], ["one", "one"], ["two", "two"]
    assert Path("ran").read_text().split() == [*first, *beside, *first, *back]
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()[1:]]
    assert [row.get("turn", 0) for row in rows] == [0, 0, 1, 0, 0, 1]
    assert all(row["output_tokens"] > 0 for row in rows)


def test_a_final_runs_in_turns_and_goes_on_where_it_was_cut_off(tune: Command) -> None:
    kept = ("--resume", "rows.jsonl", "--out", "tuned.toml", "--force")
    argv = ("--lever", "max_running=2", "--turns", "2", *kept)
    code, out, err = tune(*argv, "--max-runs", "9")
    assert (code, "--max-runs 9 ended the search" in out) == (0, True), err
    code, out, err = tune(*argv, "--format", "json")
    assert code == 0, err
    told = json.loads(out)
    assert told["final"]["pairs"] >= 6
    other = "baseline" if told["chosen"] != "baseline" else "max_running=2"
    change = told["final"]["changes"][other]
    assert change["low"] <= change["value"] <= change["high"]
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()[1:]]
    final = [(row["config"], row["turn"], row["case"]) for row in rows if row.get("turn", 0) > 1]
    turns = list(dict.fromkeys((config, turn) for config, turn, _ in final))
    other_first = [("max_running=2", 2), ("max_running=2", 3)]
    assert turns[:4] == [("baseline", 2), *other_first, ("baseline", 3)]
    assert len(final) == len(set(final))  # nothing ran twice
    code, out, err = tune(*argv)
    assert (code, err) == (0, "")
    assert f"final: {other}: latency_p50 " in out


def test_judges_score_each_share_of_cases(tune: Command) -> None:
    Path("judge.py").write_text(
        "from agentrt import program\n@program\nasync def grade(result: str) -> float:\n"
        "    return 0.5 if result == 'yes' else 0.0\n"
    )
    scorer = '[[scorers]]\nkind = "judge"\nprogram = "judge.py:grade"\n'
    Path("suite.toml").write_text(SUITE + scorer)
    code, out, err = tune("--lever", "max_running=2", "--format", "json")
    assert code == 0, err
    assert [one["figures"]["score"] for one in json.loads(out)["configs"]] == [0.5, 0.5]


def test_the_model_of_a_role_is_a_lever(tune: Command) -> None:
    Path("pick.py").write_text(PROGRAM.replace("max_tokens=8)", "max_tokens=8, model='plan')", 1))
    Path("agentrt.toml").write_text(
        "[engines.away]\nkind = 'vllm'\naddress = 'http://127.0.0.1:9'\nmodel = 'm'\n"
        "limits = { outage_s = 0.01 }\n[roles]\nplan = 'embedded'\n"
    )
    levers = ("--lever", "roles.plan=embedded,away", "--lever", "max_running=2")
    code, out, err = tune(*levers, "--force")
    assert code == 0, err
    assert "out: roles.plan=away max_running=2: does not start: " in out
    assert read_engine_file(Path("agentrt.toml")).roles == {"plan": "embedded"}


def test_a_budget_ends_the_search(tune: Command) -> None:
    code, out, _ = tune(*LEVER, "--budget", "0.01ms")
    assert (code, "--budget 0.01ms ended the search" in out) == (5, True)
    assert "nothing was chosen" in out
    assert not Path("agentrt.toml").exists()


def test_an_engine_that_does_not_start_is_out(tune: Command) -> None:
    Path("agentrt.toml").write_text(
        "[engines.away]\nkind = 'vllm'\naddress = 'http://127.0.0.1:9'\nmodel = 'm'\n"
        "limits = { outage_s = 0.01 }\n"
    )
    code, out, err = tune("--models", "embedded,away", "--force")
    assert code == 0, err
    assert "out: engine=away: does not start: " in out
    assert "chosen: baseline" in out


def test_a_combination_that_cannot_be_loaded_is_left_out(tune: Command) -> None:
    code, _, err = tune("--lever", "activations=int8")
    assert (code, "nothing to search: no activations in int8 run here" in err) == (2, True)
    code, out, _ = tune("--lever", "activations=auto,int8", "--lever", "max_running=0,2")
    assert code == 0
    assert "2 configurations" in out
    assert "left out: activations=int8 and 1 more: no activations in int8 run here" in out


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (("--slo", "soon"), "--slo 'soon' is no duration above 0"),
        (("--budget", "0"), "--budget '0' is no duration above 0"),
        (("--suite", "absent"), "there is no suite absent"),
        (("--suite", ""), "was given no suite"),
        (("--lever", "max_running=0"), "nothing to search: no lever has another value"),
        (("--lever", "max_runing=1,2"), "'max_runing' is no lever (did you mean max_running?)"),
        (("--lever", "max_running=many"), "max_running=many is no value of it"),
        (("--lever", "max_running"), "'max_running' is no lever"),
        (("--lever", "model=absent"), "there is no absent"),
        (("--lever", "engine=absent"), "engine 'absent' is no engine"),
        (("--lever", "roles.default=a"), "is no role"),
        (("--models", "a,"), "has nothing at a comma"),
        (("--objective", "p99"), "--objective 'p99' is unknown"),
        (("--objective", "cost"), "needs prices in one currency"),
        (("--fail-if", "score"), "is no limit"),
        (("--device", "tpu"), "device 'tpu' is no device"),
        (("--format", "xml"), "--format 'xml' is unknown"),
        (("--out", "absent/agentrt.toml"), "there is no folder absent"),
        (("--engine", "http://h:1"), "nothing to search: the engine is a remote one"),
        (("absent.py",), "absent.py cannot be read"),
    ],
)
def test_bad_input_is_one_error(tune: Command, argv: tuple[str, ...], part: str) -> None:
    code, out, err = tune(*argv)
    assert (code, out) == (2, "")
    assert part in err
