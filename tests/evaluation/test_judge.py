"""Judges: programs of the user's that score results, on an engine and at a cost of their own."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import OWN_SUITE, Command

CASES = (
    {"id": "a", "inputs": {"text": "one"}, "expected": ["yes", "one"]},
    {"id": "b", "inputs": {"text": "two"}, "expected": ["yes", "three"]},
    {"id": "c", "inputs": {"text": "four", "fail": True}, "expected": []},
)
JUDGE = """
from pathlib import Path
from typing import Any, Literal
from agentrt import chat, program

@program
async def grade(result: list[str], expected: list[str], inputs: dict[str, Any]) -> float:
    with Path("judged").open("a") as file:
        file.write(inputs["text"] + "\\n")
    if Path("broken").exists():
        raise ValueError("no verdict")
    await chat("Judge.").user(str(result)).generate(Literal["good"], max_tokens=8)
    return 1.0 if result == expected else 0.5
"""
SCORERS = '[[scorers]]\nkind = "schema"\nschema = { type = "array" }\n[[scorers]]\nkind = "judge"\n'


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "pick.py").write_text(OWN_SUITE)
    (folder / "judge.py").write_text(JUDGE)
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    (folder / "suite.toml").write_text(
        f'program = "pick.py"\ncases = "cases.jsonl"\n{SCORERS}program = "judge.py:grade"\n'
    )
    return folder


def told() -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(Path("told.json").read_text())
    return found


def test_a_judge_scores_at_a_cost_of_its_own(
    evaluate: Command, own_engine: str, suite: Path
) -> None:
    code, out, err = evaluate(str(suite), "--judge", own_engine, "--json", "told.json")
    assert code == 0, err
    rows = {row["case"]: row for row in told()["results"]}
    assert [rows[case]["score"] for case in "abc"] == [1.0, 0.75, 0.0]
    assert [rows[case]["passed"] for case in "abc"] == [True, False, False]
    (config,) = told()["configs"]
    assert (config["currency"], config["judge_currency"]) == ("", "EUR")
    assert config["judge_cost"] == pytest.approx(
        sum(float(str(row["judge_cost_pico"])) for row in rows.values()) / 1e12
    )
    assert f"{config['judge_cost']:.4g} EUR" in out
    assert Path("judged").read_text().split() == ["one", "two"]  # an error is not the judge's


def test_equal_results_have_one_verdict(evaluate: Command, suite: Path) -> None:
    Path("same.toml").write_text("max_running = 8\n")
    assert evaluate(str(suite), "--configs", "embedded,same.toml", "--json", "told.json")[0] == 0
    assert sorted(Path("judged").read_text().split()) == ["one", "two"]
    scores = [row["score"] for row in told()["results"]]
    assert scores == [1.0, 0.75, 0.0] * 2


def test_an_added_configuration_takes_the_verdicts_that_are_there(
    evaluate: Command, suite: Path
) -> None:
    Path("same.toml").write_text("max_running = 8\n")
    assert evaluate(str(suite), "--resume", "rows.jsonl")[0] == 0
    both = ("--configs", "embedded,same.toml", "--resume", "rows.jsonl", "--json", "told.json")
    assert evaluate(str(suite), *both)[0] == 0
    assert sorted(Path("judged").read_text().split()) == ["one", "two"]
    assert [row["score"] for row in told()["results"]] == [1.0, 0.75, 0.0] * 2


def test_results_wait_for_a_judge_that_failed(evaluate: Command, suite: Path) -> None:
    Path("broken").touch()
    code, out, err = evaluate(str(suite), "--resume", "rows.jsonl")
    assert (code, out) == (2, "")
    assert "the judge grade failed on case" in err
    assert "ValueError: no verdict" in err
    Path("broken").unlink()
    (suite / "pick.py").touch()
    assert evaluate(str(suite), "--resume", "rows.jsonl", "--json", "told.json")[0] == 0
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()[1:]]
    assert len(rows) == 3 + 2  # a case runs once, and is completed by its verdict
    assert [row["score"] for row in told()["results"]] == [1.0, 0.75, 0.0]


def test_a_suite_may_have_judges_alone(evaluate: Command, suite: Path) -> None:
    (suite / "suite.toml").write_text(
        'program = "pick.py"\ncases = "cases.jsonl"\n'
        '[[scorers]]\nkind = "judge"\nprogram = "judge.py:grade"\n'
    )
    assert evaluate(str(suite), "--json", "told.json")[0] == 0
    assert [row["score"] for row in told()["results"]] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("judge", "argv", "part"),
    [
        ("", (), "the scorer judge needs 'program'"),
        ("program = 3\n", (), "program=3 is no text"),
        ('program = "judge.py:grade"\nfield = "a"\n', (), "'field' is no key of the scorer judge"),
        ('program = "absent.py"\n', (), "absent.py"),
        ('program = "odd.py"\n', (), "a judge takes no `tone`"),
        ('program = "loud.py"\n', (), "the judge loud gave 'good'"),
        ('program = "judge.py:grade"\nconfig = "absent"\n', (), "absent"),
        ('program = "judge.py:grade"\n', ("--judge", "embedded,other"), "other"),
    ],
)
def test_bad_judges_are_one_error(
    evaluate: Command, suite: Path, judge: str, argv: tuple[str, ...], part: str
) -> None:
    head = "from agentrt import program\n@program\nasync def "
    (suite / "odd.py").write_text(f"{head}odd(tone: str) -> bool:\n    return True\n")
    (suite / "loud.py").write_text(f"{head}loud(result: list[str]) -> str:\n    return 'good'\n")
    (suite / "suite.toml").write_text(
        f'program = "pick.py"\ncases = "cases.jsonl"\n{SCORERS}{judge}'
    )
    code, out, err = evaluate(str(suite), *argv)
    assert (code, out) == (2, "")
    assert part in err
