"""A program's signature becomes flags."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt.base.errors import ProgramError
from agentrt.cli.parameters import REQUIRED, is_many, metavar, parameters_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Window(BaseModel):
    start: int
    end: int


def documented(
    question: str,
    data: Path = Path("x.csv"),
    max_steps: Annotated[int, Field(ge=1, description="Rounds at most.")] = 6,
    note: Annotated[str | None, "Kept with the run."] = None,
) -> str:
    """Answer.

    Args:
        question: What to ask,
            in one sentence.
        data (Path): Where the numbers are.

    Returns:
        nothing: here.
    """
    return f"{question}{data}{max_steps}{note}"


def test_names_defaults_and_help_come_from_the_function() -> None:
    found = {one.name: one for one in parameters_of(documented)}
    assert list(found) == ["question", "data", "max_steps", "note"]
    assert found["question"].default is REQUIRED
    assert found["question"].text == "What to ask, in one sentence."
    assert found["data"].text == "Where the numbers are."
    assert found["max_steps"].flag == "--max-steps"
    assert found["max_steps"].text == "Rounds at most."
    assert found["note"].text == "Kept with the run."
    assert not found["note"].required


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (str, "TEXT"),
        (int | None, "INTEGER"),
        (Annotated[float, Field(gt=0)], "NUMBER"),
        (Path, "PATH"),
        (Literal["a", "b"], "[a|b]"),
        (Size, "[small|large]"),
        (list[int], "INTEGER"),
        (Window, "JSON|@FILE"),
        (dict[str, int], "JSON|@FILE"),
    ],
)
def test_what_a_value_looks_like(form: object, shown: str) -> None:
    assert metavar(form) == shown


def test_lists_are_repeated_flags() -> None:
    assert is_many(list[str])
    assert is_many(tuple[int, ...])
    assert not is_many(tuple[int, str])
    assert not is_many(str)


def test_parameters_without_a_name_are_refused() -> None:
    def loose(*parts: str) -> None: ...

    with pytest.raises(ProgramError, match="has no name") as caught:
        parameters_of(loose)
    assert "test_parameters.py:" in caught.value.where
