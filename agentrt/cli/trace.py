"""`agentrt trace`: the nodes of past runs, and why they waited."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from agentrt.base.errors import UsageError
from agentrt.base.text_columns import wrapped
from agentrt.cli.run_argument import Folder, run_argument
from agentrt.cli.standard_streams import terminal_width
from agentrt.cli.trace_diff import diff
from agentrt.cli.trace_export import export
from agentrt.cli.trace_open import open_run
from agentrt.cli.trace_report import report

trace = typer.Typer(help="What past runs did, and why.", no_args_is_help=True)


@trace.command("list", hidden=True)  # its name before
@trace.command("ls")
def list_runs(
    folder: Folder = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show so many, the newest.")] = 20,
) -> int:
    """List the runs that left a trace, the newest first."""
    from agentrt.cli.trace_files import runs_folder, trace_files
    from agentrt.telemetry import names
    from agentrt.telemetry.reading import number_of, read

    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint="name one that has trace files")
    place = folder or runs_folder()
    files = trace_files(place)
    if not files:
        sys.stdout.write(f"There are no traces in {place}\n")
        return 0
    lines = [f"{'run':18}{'trace':9}{'began (UTC)':19}{'ms':>10}  {'nodes':>5}  program"]
    for one in files[:most]:
        run = read(one.path)[0]
        root = run.spans[0]
        nodes = sum(names.NODE_KIND in span.attributes for span in run.spans)
        took_ms = number_of(root.attributes, names.COMPOUND_MS)
        failed = "" if root.error is None else f"  failed: {' '.join(root.error.split())}"
        run_id = str(root.attributes.get(names.RUN_ID, "?"))
        began = re.sub(r"(....)(..)(..)T(..)(..)(..).*", r"\1-\2-\3 \4:\5:\6", one.at)
        figures = f"{took_ms:>10.1f}  {nodes:>5}"
        line = f"{run_id:18}{one.trace_id[:7]:9}{began}{figures}  {one.program}{failed}"
        lines += wrapped(line, terminal_width(), indent=4)
    if len(files) > most:
        lines.append(f"and {len(files) - most} more")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


@trace.command("show")
def show(
    run: Annotated[str, run_argument()],
    node: Annotated[
        str,
        typer.Option(
            "--why",
            metavar="NODE",
            help="Show where this node's time went: its name, id or FILE:LINE; with :N the N-th.",
        ),
    ] = "",
    waits: Annotated[
        bool, typer.Option("--waits", help="A table of what each node waited for, in ms.")
    ] = False,
    folder: Folder = None,
    text: Annotated[
        bool, typer.Option("--text", help="Show what was said: prompts, answers, tool calls.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="With --text: long texts whole.")] = False,
) -> int:
    """Show the nodes of a run as a tree over time; with --why, why one of them waited."""
    from agentrt.cli.trace_files import find, runs_folder

    reports = {"--why": bool(node), "--waits": waits, "--text": text}
    if len(given := [flag for flag, is_given in reports.items() if is_given]) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are two reports", hint="give one of them")
    if text:
        from agentrt.cli.transcripts import show_transcript

        return show_transcript(run, folder or runs_folder(), full=full)
    if full:
        raise UsageError("--full shows texts whole", hint="give --text too")
    from agentrt.cli.node_choice import ambiguous, choice_lines, nodes_of
    from agentrt.cli.trace_tree import print_tree
    from agentrt.cli.why import table, why
    from agentrt.telemetry.reading import read
    from agentrt.telemetry.waits import TraceNodes

    found = read(find(run, folder or runs_folder()))[0]
    if not node and not waits:
        print_tree(found)
        return 0
    nodes = TraceNodes(found)
    if not node:
        sys.stdout.write("\n".join(table(nodes)) + "\n")
        return 0
    meant = nodes_of(nodes, node)
    lines = why(nodes, meant[0]) if len(meant) == 1 else choice_lines(nodes, node, meant)
    sys.stdout.write("\n".join(lines) + "\n")
    if len(meant) > 1:
        sys.stdout.flush()
        raise ambiguous(node, meant)
    return 0


trace.command("diff")(diff)
trace.command("open")(open_run)
trace.command("export")(export)
trace.command("report")(report)
