"""Transcripts of past runs: the choice of one, and its text."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from agentrt.analysis.transcript_reading import read_transcript
from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId, trace_id_of
from agentrt.base.record import record
from agentrt.cli.trace_files import LAST, TraceFile, chosen, trace_files
from agentrt.cli.transcript_text import MAX_LINES, write_transcript
from agentrt.telemetry.run_files import TRANSCRIPT_SUFFIX

_FILE = re.compile(
    r"\d{8}T\d{6}\.\d{3}Z-(.+?)(?:@[0-9a-f]+)?-([0-9a-f]{16})" + re.escape(TRANSCRIPT_SUFFIX)
)
_STAMP = len("20260101T000000.000Z")


@record
class TranscriptFile:
    """A transcript of a run.

    Attributes:
        path: Path of the file.
        program: Program of the run, in the file's name.
        run_id: Id of the run, likewise.
    """

    path: Path
    program: str
    run_id: str

    @property
    def trace_id(self) -> str:
        """Id of the trace of a run that has no caller."""
        return trace_id_of(RunId(self.run_id))


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


def transcript_files(folder: Path) -> list[TranscriptFile]:
    """Transcripts in a folder, newest first; [] if there is no folder."""
    found = []
    for path in folder.glob(f"*{TRANSCRIPT_SUFFIX}"):
        match = _FILE.fullmatch(path.name)
        if match:
            found.append(TranscriptFile(path, match[1], match[2]))
    return sorted(found, key=lambda one: one.path.name, reverse=True)


def transcript_beside(trace: Path, run_id: str) -> Path | None:
    """The transcript of a run beside its trace file; None if there is none."""
    for one in transcript_files(trace.parent):
        if one.run_id == run_id:
            return one.path
    return None


def find_transcript(wanted: str, folder: Path) -> Path:
    """The transcript of a run; for `wanted` see `show_transcript`.

    Raises:
        UsageError: There is no such run, there are several, or it has no transcript.
    """
    given = Path(wanted)
    if given.is_file() and given.suffix != ".json":
        return given
    run = TraceFile(given, "", "", "") if given.is_file() else _run(wanted, folder)
    if isinstance(run, TranscriptFile):
        return run.path
    found = transcript_beside(run.path, run.run_id)
    if found is not None:
        return found
    raise UsageError(
        f"run {run.run_id} has no transcript beside {run.path}",
        hint="`agentrt run` keeps one unless --content or --trace is off; --show prints one",
    )


def _run(wanted: str, folder: Path) -> TraceFile | TranscriptFile:
    """The trace file of a run, or its transcript if there is no trace file."""
    traces, transcripts = trace_files(folder), transcript_files(folder)
    if wanted == LAST:
        traces, transcripts = traces[:1], transcripts[:1]
    traced = {one.run_id for one in traces}
    runs: Sequence[TraceFile | TranscriptFile] = [
        *traces,
        *(one for one in transcripts if one.run_id not in traced),
    ]
    # Of runs that began at one instant the last one is that of `trace show`, which has a trace.
    newest_first = sorted(
        runs, key=lambda one: (one.path.name[:_STAMP], isinstance(one, TraceFile)), reverse=True
    )
    return chosen(wanted, newest_first, folder)
