"""Flags of every run and flags of the program, side by side."""

import inspect
from pathlib import Path

import pytest

from agentrt.cli.parameters import Parameter
from agentrt.cli.run_flags import FLAGS, OWN, flags_in, option, run_command, target_in

PROGRAM = '''
from typing import Literal
from agentrt import program

@program
async def job(x: int, seed: str = "", deep: bool = False, mode: Literal["a", "b"] = "a") -> str:
    """Do it.

    Args:
        x: How often.
    """
    return f"{x}{seed}{deep}{mode}"
'''


@pytest.mark.parametrize(
    ("argv", "target"),
    [
        (["run", "a.py"], "a.py"),
        (["run", "--seed", "3", "a.py:go", "--x", "1"], "a.py:go"),
        (["run", "--trace=off", "-q", "a.py"], "a.py"),
        (["run", "--json", "a.py"], "a.py"),
        (["run", "--x", "1", "a.py"], ""),
        (["run", "--help"], ""),
        (["doctor", "a.py"], ""),
        ([], ""),
    ],
)
def test_the_file_is_found_before_parsing(argv: list[str], target: str) -> None:
    assert target_in(argv) == target


def test_a_programs_parameters_join_the_flags(tmp_path: Path) -> None:
    file = tmp_path / "job_with_flags.py"
    file.write_text(PROGRAM)
    command = run_command(f"{file}:job")
    names = set(inspect.signature(command).parameters)
    assert {"target", "seed", OWN + "x", OWN + "deep", OWN + "mode"} <= names
    assert OWN + "seed" not in names, "the flag is taken"
    assert "`seed`" in (command.__doc__ or "")
    assert "--args" in (command.__doc__ or "")


def test_a_bool_has_a_flag_for_each_value() -> None:
    made = option(Parameter("deep", bool, False), "")
    assert flags_in(made.annotation) == ["--deep/--no-deep"]


def test_every_flag_of_a_run_is_known() -> None:
    for flag in ("--args", "--batch", "--engine", "--trace", "--json", "-q", "-v", "--api-key"):
        assert flag in FLAGS
