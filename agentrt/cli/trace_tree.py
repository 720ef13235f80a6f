"""The tree of a past run on standard output: with colours on a terminal, plain elsewhere."""

from __future__ import annotations

import sys

from agentrt.cli.run_tree.from_trace import tree_of_trace
from agentrt.cli.run_tree.glyphs import glyphs_for
from agentrt.cli.run_tree.layout import View, text_of, tree_lines
from agentrt.cli.standard_streams import reading_width
from agentrt.telemetry.span import Trace


def print_tree(trace: Trace) -> None:
    """Print the nodes of a run, all of them, and why some failed."""
    view = View(reading_width(), glyphs=glyphs_for(sys.stdout.encoding), with_reasons=True)
    lines = tree_lines(tree_of_trace(trace), view)
    if not sys.stdout.isatty():
        sys.stdout.write("".join(text_of(line) + "\n" for line in lines))
        return
    from rich.console import Console

    from agentrt.cli.live_tree import DrawnLines

    Console(highlight=False).print(DrawnLines(lambda: lines), end="")
