"""`agentrt graph`: a program as a picture, from its code or from one of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentrt.base.errors import UsageError
from agentrt.cli.completion import program_names, run_names
from agentrt.cli.run_argument import Folder

if TYPE_CHECKING:
    from agentrt.analysis.graph.node_graph import NodeGraph

Form = Literal["mermaid", "svg", "dot"]


def graph(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:FN]",
            help="A Python file, and a program in it.",
            autocompletion=program_names,
        ),
    ] = "",
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Draw this run instead: a trace file, `last`, or the start of an id.",
            autocompletion=run_names,
        ),
    ] = "",
    form: Annotated[
        Form, typer.Option("--format", help="Text for Mermaid or Graphviz, or a picture.")
    ] = "mermaid",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write this file instead of standard output."),
    ] = None,
    folder: Folder = None,
) -> int:
    """Draw a program from its code, or one of its runs.

    The code is read and not run: what it shows are places that make nodes, with both sides of each
    branch. A run shows what happened, with times and the critical path.
    """
    from agentrt.cli.trace_export import write_out

    write_out(drawn(graph_of(target, run, folder), form), out)
    return 0


def graph_of(target: str, run: str, folder: Path | None) -> NodeGraph:
    """The graph of a program or of a run.

    Raises:
        UsageError: Both or neither are given, or what is given does not exist.
    """
    if bool(target) == bool(run):
        what = "neither a program nor a run is" if not run else "a program and a run are both"
        raise UsageError(f"{what} given", hint="give FILE[:FN], or --run RUN")
    if run:
        from agentrt.cli.trace_files import find, runs_folder
        from agentrt.telemetry.reading import read
        from agentrt.telemetry.run_graph import run_graph

        return run_graph(read(find(run, folder or runs_folder()))[0])
    from agentrt.cli import target as targets
    from agentrt.program.code.code_graph import code_graph
    from agentrt.program.code.code_picture import code_picture

    return code_picture(code_graph(targets.find(target)))


def drawn(graph: NodeGraph, form: Form) -> str:
    """The graph in a form, with a newline at its end."""
    if form == "svg":
        from agentrt.analysis.graph.svg import svg

        return svg(graph)
    if form == "dot":
        from agentrt.analysis.graph.dot import dot

        return dot(graph)
    from agentrt.analysis.graph.mermaid import mermaid

    return mermaid(graph)
