"""Commands that are imported only if they are called: `agentrt --help` shows a line of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

TITLES = {
    "init": "Make a folder with a program, a tool and a test that passes.",
    "check": "Check a program without a model: types, grammars, tools, prompts, one run.",
    "eval": "Run a suite of cases under several configurations, and compare them.",
    "tune": "Search the configuration of lowest latency that keeps the answers of a suite.",
    "graph": "Draw a program from its code, or one of its runs.",
    "mcp": "List servers of the Model Context Protocol, or the tools of one.",
    "trace": "What past runs did, and why.",
    "runs": "What past runs taught.",
    "cache": "Answers kept for equal requests.",
    "fleet": "Several servers as one engine.",
    "quantize": "Round a model's weights to 8 or 4 bits, in a directory that other engines read.",
    "compile": "Lay a model out for this machine, so that it starts in a fraction of the time.",
    "kernels": "The native code of the CPU kernels.",
    "bench": "Measure the engine.",
    "sim": "Simulate many programs on one engine or many, with the scheduler of production.",
}
"""Title of each command, equal to that of its code."""


class CommandGroup(TyperGroup):
    """A group that wraps long titles of its commands, where typer ends them with three dots."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and command.help and not command.short_help:
                command.short_help = " ".join(command.help.partition("\n\n")[0].split())
        super().format_commands(ctx, formatter)


def add_late_commands(app: typer.Typer, called: str) -> None:
    """Add all of them to the application; only the one that is called has its flags."""
    for name, title in TITLES.items():
        if name != called:
            app.command(name, help=title)(lambda: None)
            continue
        found = late_command(name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, cls=CommandGroup)
        else:
            app.command(name)(found)


def late_command(name: str) -> typer.Typer | Callable[..., int]:
    """The command of a name in `TITLES`, imported now."""
    return _laboratory(name) or _group(name) or _command(name)


def _laboratory(name: str) -> typer.Typer | None:
    if name == "bench":
        from agentrt.lab.commands.bench import bench

        return bench
    if name == "sim":
        from agentrt.lab.commands.sim import sim

        return sim
    return None


def _group(name: str) -> typer.Typer | None:
    if name == "trace":
        from agentrt.cli.trace import trace

        return trace
    if name == "runs":
        from agentrt.cli.runs import runs

        return runs
    if name == "cache":
        from agentrt.cli.cache import cache

        return cache
    if name == "fleet":
        from agentrt.cli.fleet import fleet

        return fleet
    if name == "kernels":
        from agentrt.cli.kernels import kernels

        return kernels
    return None


def _command(name: str) -> Callable[..., int]:
    if name == "init":
        from agentrt.cli.init import init

        return init
    if name == "check":
        from agentrt.cli.check import check

        return check
    if name == "eval":
        from agentrt.cli.eval import evaluate

        return evaluate
    if name == "tune":
        from agentrt.cli.tune import tune

        return tune
    if name == "mcp":
        from agentrt.cli.mcp import mcp

        return mcp
    if name == "quantize":
        from agentrt.cli.quantize import quantize

        return quantize
    if name == "compile":
        from agentrt.cli.compile import compile_command

        return compile_command
    from agentrt.cli.graph import graph

    return graph
