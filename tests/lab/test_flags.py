"""A record makes the flags of a command: its docstring has their help."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.commands.bench import bench
from agentrt.lab.commands.sim import sim
from agentrt.lab.flags import add_command
from agentrt.lab.path_rules import output_file


@record
class Common:
    """Flags of every test.

    Attributes:
        most_rows: Rows that are shown.
    """

    most_rows: int = 3


@record
class Flags(Common):
    """Flags of this test.

    Attributes:
        html_path: Write a page there.
        quick: That it works.
    """

    html_path: Annotated[Path | None, output_file] = None
    quick: bool = False


def test_a_file_is_checked_before_the_work(tmp_path: Path) -> None:
    begun: list[Flags] = []

    def show(flags: Flags) -> None:
        """Show it."""
        begun.append(flags)

    app = typer.Typer()
    add_command(app, show)
    with pytest.raises(UsageError, match=r"--html .*: is a folder"):
        app(["--html", str(tmp_path)], standalone_mode=False)
    assert begun == []
    app(["--html", str(tmp_path / "a" / "b.html")], standalone_mode=False)
    assert len(begun) == 1


def test_a_field_is_a_flag_with_its_help() -> None:
    given: list[Flags] = []

    def show(flags: Flags) -> int:
        """Show it."""
        given.append(flags)
        return 4

    app = typer.Typer()
    add_command(app, show)
    command: Any = typer.main.get_command(app)
    assert (command.name, command.help) == ("show", "Show it.")
    flags = {flag.name: (flag.opts, flag.secondary_opts, flag.help) for flag in command.params}
    assert flags["most_rows"] == (["--most-rows"], [], "Rows that are shown.")
    assert flags["html_path"] == (["--html"], [], "Write a page there.")
    assert flags["quick"] == (["--quick"], [], "That it works.")
    asked = ["--most-rows", "5", "--html", "a.html", "--quick"]
    assert command.main(asked, standalone_mode=False) == 4
    assert given == [Flags(5, Path("a.html"), True)]


@pytest.mark.parametrize("commands", [bench, sim], ids=["bench", "sim"])
def test_every_flag_has_its_help(commands: typer.Typer) -> None:
    group: Any = typer.main.get_command(commands)
    for command in group.commands.values():
        for flag in command.params:
            assert getattr(flag, "help", None), f"{command.name} {flag.name}"
