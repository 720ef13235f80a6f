"""Transcripts of past runs: the choice of one, and its text."""

from __future__ import annotations

import sys
from pathlib import Path

from agentrt.analysis.transcript import SUFFIX
from agentrt.analysis.transcript_reading import read_transcript
from agentrt.base.errors import UsageError
from agentrt.cli.trace_files import chosen, trace_files
from agentrt.cli.transcript_text import MAX_LINES, write_transcript

_TRACE_ID_DIGITS = 32


def show_transcript(wanted: str, folder: Path, *, full: bool = False) -> int:
    """Write the transcript of a run to standard output; returns the exit code.

    Args:
        wanted: A transcript, a trace file, `last`, or the beginning of a run's or trace's id.
        folder: Folder of trace files and transcripts.
        full: Show all lines of long texts.

    Raises:
        UsageError: There is no such run, or it has no transcript.
    """
    transcript = read_transcript(find_transcript(wanted, folder))
    write_transcript(transcript, sys.stdout, None if full else MAX_LINES)
    return 0


def find_transcript(wanted: str, folder: Path) -> Path:
    """The transcript of a run; for `wanted` see `show_transcript`.

    Raises:
        UsageError: There is no such run, there are several, or it has no transcript.
    """
    given = Path(wanted)
    if given.is_file():
        if given.suffix != ".json":
            return given
        folder, trace_id = given.parent, given.stem[-_TRACE_ID_DIGITS:]
    else:
        runs = {one.trace_id: one for one in trace_files(folder, SUFFIX)}
        runs |= {one.trace_id: one for one in trace_files(folder)}
        newest_first = sorted(runs.values(), key=lambda one: one.path.name, reverse=True)
        trace_id = chosen(wanted, newest_first, folder).trace_id
    for one in trace_files(folder, SUFFIX):
        if one.trace_id == trace_id:
            return one.path
    raise UsageError(
        f"run {wanted} has no transcript in {folder}",
        hint="`agentrt run` keeps one unless --content or --trace is off; agentrt run --show",
    )
