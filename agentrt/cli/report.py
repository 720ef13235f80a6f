"""Reports of runs as HTML files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output, write_output

if TYPE_CHECKING:
    from agentrt.analysis import RunRecord

_ENDS = (".html", ".htm")
_HINT = "name a file that ends in .html, in a folder that is there"


def report_path(text: str, flag: str) -> Path:
    """The file of a report, checked before the work that leads to it.

    Args:
        text: Path as given.
        flag: Flag that gives it, for messages.

    Raises:
        UsageError: No report can be written there.
    """
    path = Path(text)
    if path.suffix.lower() not in _ENDS:
        raise UsageError(f"{flag} {text}: a report is an HTML file", hint=_HINT)
    check_output(path, flag)
    return path


def default_name(record: RunRecord) -> str:
    """Name of a report that was given none, such as `finance-1dc09ef4.html`."""
    program = record.started.program if record.started else "run"
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", program)[:60].strip("._-") or "run"
    return f"{safe}-{record.run_id[:8]}.html"


def write_report(path: Path, record: RunRecord, transcript: Path | None = None) -> None:
    """Write the report of a run to a file that only its owner can read.

    Args:
        path: The file.
        record: The run.
        transcript: File of its transcript, if one was kept.

    Raises:
        UsageError: The file cannot be written.
    """
    from agentrt.analysis.report.run_report import run_report

    said = [] if transcript is None else [_said(transcript)]
    text = run_report(record, said)
    write_output(path, text, private=True)


def _said(transcript: Path) -> str:
    """The section of a transcript; the rest of a report does not depend on it."""
    from agentrt.analysis.report.transcript_view import transcript_section, unread_section
    from agentrt.analysis.transcript_reading import read_transcript

    try:
        return transcript_section(read_transcript(transcript))
    except UsageError as error:
        return unread_section(error.message)
