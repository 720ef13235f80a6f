"""Traces go to `traces/runs` only where a `traces` folder stands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

JOB = "from agentrt import program\n@program\nasync def job() -> int:\n    return 1\n"


def test_without_a_folder_traces_go_to_the_state_of_the_user(
    served: Callable[..., Any],
    inside: Callable[..., Any],
    program: Callable[..., Path],
    tmp_path: Path,
) -> None:
    program(JOB)
    (tmp_path / "traces").rmdir()
    told = served("job.py")
    assert told.code == 0, told.err
    assert not (tmp_path / "traces").exists()
    (trace,) = (tmp_path / "state" / "agentrt" / "traces" / "runs").glob("*.json")
    assert str(trace) in told.err
    listed = inside("trace", "ls").out
    assert " job" in listed.splitlines()[1], "and are found there"


def test_a_batch_says_in_its_files_that_it_is_one(
    served: Callable[..., Any],
    inside: Callable[..., Any],
    program: Callable[..., Path],
    tmp_path: Path,
) -> None:
    program(JOB)
    (tmp_path / "in.jsonl").write_text("{}\n{}\n")
    assert served("job.py", "--batch", "in.jsonl").code == 0
    names = [path.name for path in (tmp_path / "traces" / "runs").glob("*.json")]
    assert len({name.split("@")[1].split("-")[0] for name in names}) == 1
    lines = inside("trace", "ls").out.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["job", "job"]
