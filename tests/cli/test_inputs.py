"""Arguments come from flags and from `--args`."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.inputs import arguments_of
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
