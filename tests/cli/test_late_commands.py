"""Commands that are imported only if they are called."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import typer

from agentrt.cli.late_commands import TITLES, late_command


@pytest.mark.parametrize("name", TITLES)
def test_a_title_is_that_of_the_command(name: str) -> None:
    found = late_command(name)
    if isinstance(found, typer.Typer):
        assert found.info.help == TITLES[name]
    else:
        assert (inspect.getdoc(found) or "").splitlines()[0] == TITLES[name]


def test_help_lists_them_and_each_has_its_own(inside: Callable[..., Any]) -> None:
    listed = inside("--help").out
    for name in TITLES:
        assert f"\n  {name} " in listed
    assert "--format" in inside("graph", "--help").out
    assert "export" in inside("trace", "--help").out
    assert inside("trace").code == 2 or "export" in inside("trace").out


@pytest.mark.parametrize("group", ["", "trace", "bench", "sim"])
def test_titles_are_shown_whole(inside: Callable[..., Any], group: str) -> None:
    listed = inside(*filter(None, [group]), "--help").out.partition("Commands:")[2]
    assert len(listed.splitlines()) > 5
    assert "..." not in listed
