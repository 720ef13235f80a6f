"""Help of a group of commands, with the whole title of each."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group that wraps long titles of its commands, where typer ends them with three dots."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and command.help and not command.short_help:
                command.short_help = " ".join(command.help.partition("\n\n")[0].split())
        super().format_commands(ctx, formatter)
