"""Arguments come from flags, from `--args` and from the lines of a batch."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.inputs import arguments_of, batch_of
from agentrt.cli.parameters import Parameter

OWN = (
    Parameter("question", str),
    Parameter("n", int, 9),
    Parameter("data", Path, Path("a.csv")),
)
WHERE = "programs/vote.py:24 in vote"


def test_flags_win_over_args() -> None:
    args = '{"question": "a", "n": 3, "data": "b.csv"}'
    found = arguments_of(OWN, {"n": "5"}, args, where=WHERE)
    assert found == {"question": "a", "n": 5, "data": Path("b.csv")}


def test_defaults_are_left_to_the_program() -> None:
    assert arguments_of(OWN, {"question": "a"}, None, where=WHERE) == {"question": "a"}


@pytest.mark.parametrize(
    ("flags", "args", "what", "how"),
    [
        ({}, None, "needs `question`", "give --question TEXT"),
        ({"question": "a", "n": "x"}, None, "valid integer", "give --n INTEGER"),
        ({}, '{"qestion": "a"}', "names 'qestion'", "did you mean 'question'?"),
        ({}, "[1]", "--args is no JSON object but list", "give {"),
        ({}, "{", "not JSON", "give --args JSON"),
        ({}, "@absent.json", "absent.json cannot be read", "give --args a file"),
    ],
)
def test_wrong_input(flags: dict[str, str], args: str | None, what: str, how: str) -> None:
    with pytest.raises(UsageError) as caught:
        arguments_of(OWN, flags, args, where=WHERE)
    assert what in caught.value.message
    assert how in caught.value.hint


def test_a_batch_has_one_run_a_line(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"question": "a"}\n\n{"question": "b", "n": 1}\n')
    runs = batch_of(file, OWN, {"n": "4"}, where=WHERE)
    assert runs == [{"question": "a", "n": 4}, {"question": "b", "n": 1}]


def test_flags_and_args_stand_for_what_a_line_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{}\n{"question": "b"}\n')
    runs = batch_of(file, OWN, {"n": "4"}, '{"question": "a", "n": 2}', where=WHERE)
    assert runs == [{"question": "a", "n": 4}, {"question": "b", "n": 4}]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """JSON strings may hold what Unicode calls line ends."""
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"question": "a\u2028b\x85c"}\r\n', "utf-8")
    assert batch_of(file, OWN, {}, where=WHERE) == [{"question": "a\u2028b\x85c"}]


def test_a_missing_batch_is_asked_for_as_it_is_typed(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        batch_of(tmp_path / "absent.jsonl", OWN, {}, where=WHERE)
    assert caught.value.hint == "give --batch a file that exists"


def test_standard_input_is_read_once() -> None:
    with pytest.raises(UsageError, match="both be standard input"):
        batch_of(Path("-"), OWN, {}, "-", where=WHERE)


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ('{"question": "a"}\n{"n": 1}\n', "needs `question`", ":2"),
        ('{"question": "a"}\n{"question": \n', "is not JSON", ":2"),
        ('{"question": "a", "n": "x"}\n', "valid integer", ":1"),
        ('{"qestion": "a"}\n', "names 'qestion'", ":1"),
        ('{"question": "a"}\n[1]\n', "no JSON object but list", ":2"),
    ],
)
def test_a_bad_line_is_named_before_anything_runs(
    tmp_path: Path, text: str, what: str, line: str
) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        batch_of(file, OWN, {}, where=WHERE)
    assert what in caught.value.message
    assert caught.value.where == f"{file}{line}"


def test_an_empty_batch_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text("\n")
    with pytest.raises(UsageError, match="has no inputs"):
        batch_of(file, OWN, {}, where=WHERE)
