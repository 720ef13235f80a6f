"""Any error is told in three lines, with the exit code it stands for."""

from pathlib import Path

import pytest

from agentrt.base.errors import DeadlineExceeded, EngineDied, UsageError
from agentrt.cli.error_report import exit_code_of, helpful_traceback, three_lines

HERE = Path(__file__).parent


def raised(error: Exception) -> Exception:
    """The error with a traceback through this file."""
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_error_of_ours_says_where_by_itself() -> None:
    lines = three_lines(UsageError("no\nfile", hint="give one", where="a.py:3")).splitlines()
    assert [line.split(None, 1)[1] for line in lines][1:] == ["a.py:3", "give one"]
    assert lines[0].endswith("no file")


def test_a_foreign_error_is_placed_in_the_users_file() -> None:
    lines = three_lines(raised(ValueError("bad")), folder=HERE).splitlines()
    assert "ValueError: bad" in lines[0]
    assert "test_error_report.py:" in lines[1]
    assert "-v" in lines[2]


def test_the_first_of_a_group_stands_for_all() -> None:
    group = ExceptionGroup("two", [DeadlineExceeded("late", where="a.py:1"), ValueError("x")])
    assert len(three_lines(group).splitlines()) == 3
    assert "late (and 1 more)" in three_lines(group)
    assert exit_code_of(group) == 5


def test_a_group_tells_where_it_was_raised() -> None:
    """Its members may never have been raised themselves."""
    group = raised(ExceptionGroup("two", [ValueError("x"), ValueError("y")]))
    assert "test_error_report.py:" in three_lines(group, folder=HERE).splitlines()[1]


def test_a_traceback_helps_where_code_of_the_program_ran(tmp_path: Path) -> None:
    wrong = raised(UsageError("no file", hint="give one"))
    assert "in raised" in helpful_traceback(wrong, HERE)
    assert helpful_traceback(wrong, tmp_path) == ""
    assert helpful_traceback(raised(UsageError("no remedy")), tmp_path)
    assert helpful_traceback(raised(EngineDied("x")), tmp_path), "whoever mends the engine reads it"
    assert helpful_traceback(EngineDied("never raised"), HERE) == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), 1),
        (UsageError("x"), 2),
        (EngineDied("x"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_setting_is_named_by_its_flag_unless_code_gave_it() -> None:
    wrong = UsageError(
        "EngineConfig(head_weights='int4') is for quantised weights",
        hint="Give weights='int8' or weights='int4' too, or leave it",
    )
    assert three_lines(wrong).splitlines() == [
        "error: UsageError: --head-weights int4 is for quantised weights",
        "where: the command line",
        "fix:   Give --weights int8 or --weights int4 too, or leave it",
    ]
    assert "EngineConfig(head_weights='int4')" in three_lines(raised(wrong), folder=HERE)


def test_values_of_a_setting_are_no_flags() -> None:
    error = UsageError(
        "EngineConfig(weights='int5') is unknown", hint="Give threshold=0.1 or threads=9"
    )
    assert "Give threshold=0.1 or --threads 9" in three_lines(error, folder=HERE)


def test_a_setting_without_a_flag_is_named_as_in_a_file() -> None:
    wrong = UsageError("EngineConfig(expert_routing='x') is unknown", hint="Give kv_pages=9")
    assert three_lines(wrong).splitlines() == [
        "error: UsageError: expert_routing='x' is unknown",
        "where: the command line",
        "fix:   Give kv_pages=9",
    ]
