"""The tree of errors in the docstring is the tree of the classes."""

import re

import pytest

from agentrt.base import errors
from agentrt.base.errors import AgentrtError, ErrorRecord, InternalError, record_of, revive


def drawn() -> dict[str, str]:
    """Class -> its parent, as the docstring draws them."""
    parents: dict[str, str] = {}
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:[│├└─ ]{4})*)([A-Z]\w+)", line)
        if not match or (not match[1] and match[2] != "AgentrtError"):
            continue
        depth = len(match[1]) // 4
        stack[depth:] = [match[2]]
        parents[match[2]] = stack[depth - 1] if depth else ""
    return parents


def defined() -> dict[str, str]:
    """Class -> its parent within the tree, as Python knows them."""
    parents: dict[str, str] = {"AgentrtError": ""}
    todo: list[type[AgentrtError]] = [AgentrtError]
    while todo:
        parent = todo.pop()
        for child in parent.__subclasses__():
            if child.__module__.startswith(errors.__name__):
                parents[child.__name__] = parent.__name__
                todo.append(child)
    return parents


def test_the_docstring_draws_the_classes() -> None:
    assert drawn() == defined()


@pytest.mark.parametrize("name", sorted(defined()))
def test_every_error_crosses_a_process_and_comes_back(name: str) -> None:
    error = getattr(errors, name)("what", hint="how", where="a.py:3")
    back = revive(record_of(error))
    assert type(back) is type(error)
    assert (back.message, back.hint, back.where) == ("what", "how", "a.py:3")
    assert str(error) == "what. how"


def test_exit_codes() -> None:
    codes = {name: getattr(errors, name).exit_code for name in defined()}
    assert {name for name, code in codes.items() if code == 2} == {"UsageError"}
    assert codes["DeadlineExceeded"] == codes["BudgetExceeded"] == 5
    assert codes["ConstraintError"] == codes["Truncated"] == codes["Degenerate"] == 4
    assert {codes[n] for n in ("EngineDied", "EngineUnavailable", "ModelInvalid")} == {3}
    assert codes["ToolFailed"] == codes["NodeCancelled"] == codes["InternalError"] == 1


def test_an_error_from_outside_keeps_its_name() -> None:
    assert record_of(ValueError("bad")) == ErrorRecord("ValueError", "bad")
    assert record_of(KeyError()).message == "KeyError"
    assert isinstance(revive(ErrorRecord("ValueError", "bad")), InternalError)
