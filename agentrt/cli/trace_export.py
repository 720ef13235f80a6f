"""`agentrt trace export`: a run in a form that other software reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agentrt.base.output_file import write_output
from agentrt.cli.run_argument import Folder, run_argument

Format = Literal["jaeger", "otlp-json", "json", "csv"]


def export(
    run: Annotated[str, run_argument()],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="Jaeger's JSON; a collector's (POST it to /v1/traces); agentrt.trace/1 with the "
            "figures of each node; the same figures, a row a node.",
        ),
    ] = "json",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write this file instead of standard output."),
    ] = None,
    folder: Folder = None,
) -> int:
    """Write a run for Jaeger, a collector, a script or a spreadsheet."""
    from agentrt.cli.trace_files import find, runs_folder

    write_out(exported(find(run, folder or runs_folder()), form), out)
    return 0


def exported(path: Path, form: Format) -> str:
    """The text of a trace file in another form, with a newline at its end.

    Raises:
        UsageError: The file is no trace.
    """
    from agentrt.telemetry.jaeger import jaeger_json
    from agentrt.telemetry.node_table import trace_csv, trace_object
    from agentrt.telemetry.otlp_json import otlp_json
    from agentrt.telemetry.reading import read_with_resources

    traces, resources = read_with_resources(path)
    match form:
        case "jaeger":
            return jaeger_json(traces, resources) + "\n"
        case "otlp-json":
            return otlp_json(traces, resources) + "\n"
        case "json":
            whole = trace_object(traces[0])
            return json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n"
        case "csv":
            return trace_csv(traces[0])


def write_out(text: str, path: Path | None) -> None:
    """Write a file that only its owner can read, since a run may hold what was said in it.

    Args:
        text: Text of the file.
        path: The file; None is standard output.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is None:
        sys.stdout.write(text)
        return
    write_output(path, text, private=True)
    sys.stderr.write(f"wrote {path}\n")
