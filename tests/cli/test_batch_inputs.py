"""The lines of a batch are records with numbers; a wrong line is its record's error alone."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.batch_inputs import RunInput, batch_of
from tests.cli.test_inputs import OWN, WHERE


def arguments_in(records: list[RunInput]) -> list[object]:
    assert [one.error for one in records] == [None] * len(records)
    return [one.arguments for one in records]


def test_a_batch_has_one_run_a_line(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"question": "a"}\n\n{"question": "b", "n": 1}\n')
    records = batch_of(file, OWN, {"n": "4"}, where=WHERE)
    assert arguments_in(records) == [{"question": "a", "n": 4}, {"question": "b", "n": 1}]
    assert [one.number for one in records] == [1, 3], "the numbers of the lines"


def test_flags_and_args_stand_for_what_a_line_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{}\n{"question": "b"}\n')
    records = batch_of(file, OWN, {"n": "4"}, '{"question": "a", "n": 2}', where=WHERE)
    assert arguments_in(records) == [{"question": "a", "n": 4}, {"question": "b", "n": 4}]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """JSON strings may hold what Unicode calls line ends."""
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"question": "a\u2028b\x85c"}\r\n', "utf-8")
    records = batch_of(file, OWN, {}, where=WHERE)
    assert arguments_in(records) == [{"question": "a\u2028b\x85c"}]


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
        ('{"question": "a"}\n{"n": 1}\n', "needs `question`", 2),
        ('{"question": "a"}\n{"question": \n', "is not JSON", 2),
        ('{"question": "a", "n": "x"}\n', "valid integer", 1),
        ('{"qestion": "a"}\n', "names 'qestion'", 1),
        ('{"question": "a"}\n[1]\n', "no JSON object but list", 2),
        ('{"question": "a"}\n' + "[" * 100_000 + "\n", "is not JSON", 2),
    ],
)
def test_a_bad_line_is_the_error_of_its_record(
    tmp_path: Path, text: str, what: str, line: int
) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(text)
    records = batch_of(file, OWN, {}, where=WHERE)
    *others, bad = records
    assert [one.error for one in others] == [None] * (line - 1)
    assert bad.number == line
    assert bad.error is not None
    assert what in bad.error.message
    assert bad.error.where == f"{file}:{line}"


def test_an_empty_batch_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text("\n")
    with pytest.raises(UsageError, match="has no inputs"):
        batch_of(file, OWN, {}, where=WHERE)


def test_a_digest_is_of_all_that_decides_the_arguments(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"question": "a"}\n{"question": "a"}\n{"question": "b"}\n')
    first, same, other = batch_of(file, OWN, {"n": "4"}, where=WHERE)
    assert first.digest == same.digest != other.digest
    assert batch_of(file, OWN, {"n": "5"}, where=WHERE)[0].digest != first.digest
