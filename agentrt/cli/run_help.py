"""Help of `agentrt run`: a program's own flags under a heading of theirs, before those of all runs.

Help stands beside short flags and below long ones, so that it has room at 80 columns.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"


class RunCommand(TyperCommand):
    """A command whose help has a section for each panel of its flags."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: arguments, the panels, and all other flags."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                panel = getattr(parameter, "rich_help_panel", None)
                rows.setdefault(panel or (ARGUMENTS if is_argument else OPTIONS), []).append(record)
        own = [one for one in rows if one not in (ARGUMENTS, OPTIONS)]
        for title in (ARGUMENTS, *own, OPTIONS):
            if title in rows:
                with formatter.section(title):
                    formatter.write_dl(rows[title])
