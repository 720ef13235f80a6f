"""`agentrt trace report`: a past run as one HTML page."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agentrt.cli.run_argument import Folder, run_argument


def report(
    run: Annotated[str, run_argument()],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="An HTML file; else PROGRAM-RUN.html here.")
    ] = "",
    folder: Folder = None,
) -> int:
    """Write a run as one HTML page: where its time went, and what would make it faster."""
    from agentrt.cli.report import default_name, report_path, write_report
    from agentrt.cli.trace_files import find, runs_folder
    from agentrt.cli.transcripts import transcript_beside
    from agentrt.telemetry.reading import read
    from agentrt.telemetry.recorded_run import run_record_of

    place = report_path(out, "--out") if out else None
    file = find(run, folder or runs_folder())
    record = run_record_of(read(file)[0])
    place = place or report_path(default_name(record), "the report")
    write_report(place, record, transcript_beside(file, record.run_id))
    sys.stdout.write(f"{place}\n")
    return 0
