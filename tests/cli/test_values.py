"""Typed text and JSON become the values that a signature asks for."""

import datetime
import io
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt.base.errors import UsageError
from agentrt.cli.parameters import Parameter
from agentrt.cli.values import from_flag, from_json, read_json


class Size(Enum):
    SMALL = "small"


class Window(BaseModel):
    start: int
    end: int = 9


def read(form: Any, given: str | bool | list[str]) -> Any:
    return from_flag(Parameter("x", form), given, where="here.py:3")


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (str, "5", "5"),
        (str, "@name", "@name"),
        (int, "5", 5),
        (int | None, "5", 5),
        (int | str, "five", "five"),
        (float, "1e3", 1000.0),
        (bool, True, True),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Size, "small", Size.SMALL),
        (Path, "a/b.csv", Path("a/b.csv")),
        (Path, "@a", Path("@a")),
        (datetime.date, "2005-01-31", datetime.date(2005, 1, 31)),
        (list[int], ["1", "2"], [1, 2]),
        (list[int], ["[1,2,3]"], [1, 2, 3]),
        (list[str], ["[1"], "error"),
        (tuple[int, str], '[1,"a"]', (1, "a")),
        (set[str], ["b", "b"], {"b"}),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (Window, '{"start":1}', Window(start=1)),
    ],
)
def test_flags(form: Any, given: Any, value: Any) -> None:
    if value == "error":
        with pytest.raises(UsageError, match="not JSON"):
            read(form, given)
    else:
        assert read(form, given) == value


def test_a_file_stands_for_json(tmp_path: Path) -> None:
    file = tmp_path / "w.json"
    file.write_text('{"start": 4}')
    assert read(Window, f"@{file}") == Window(start=4)


def test_standard_input_stands_for_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 1}'))
    assert read_json("-", where="--args") == {"a": 1}


@pytest.mark.parametrize(
    ("form", "given", "what"),
    [
        (int, "five", "--x input should be a valid integer"),
        (Annotated[int, Field(ge=1)], "0", "greater than or equal to 1"),
        (Literal["a", "b"], "c", "input should be 'a' or 'b'"),
        (list[int], ["1", "x"], "valid integer"),
        (Window, '{"start":"x"}', "--x.start input should be a valid integer"),
        (Window, "{", "not JSON"),
        (Window, "@absent.json", "absent.json cannot be read: No such file"),
    ],
)
def test_a_wrong_value_says_what_and_how(form: Any, given: Any, what: str) -> None:
    with pytest.raises(UsageError, match=r"--x|absent") as caught:
        read(form, given)
    assert what in caught.value.message
    assert caught.value.hint.startswith("give --x")
    assert caught.value.exit_code == 2


def test_a_form_without_json_is_refused() -> None:
    class Socket: ...

    with pytest.raises(UsageError, match="no flag can give"):
        read(Socket, "x")


def test_json_values_are_checked_too() -> None:
    assert from_json(Parameter("x", Path), "a.csv", where="here") == Path("a.csv")
    with pytest.raises(UsageError, match="valid integer"):
        from_json(Parameter("x", int), {"a": 1}, where="here")
