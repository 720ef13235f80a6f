"""Trace files of past runs: their list, and the choice of one by a name on the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol, TypeVar

from agentrt import telemetry
from agentrt.base.errors import UsageError
from agentrt.base.record import record

LAST = "last"
_FILE = re.compile(r"(\d{8}T\d{6}\.\d{3}Z)-(.+?)(?:@[0-9a-f]+)?-([0-9a-f]{32})\.json")
_RUN_ID = re.compile(r'"key":"agentrt\.run\.id","type":"string","value":"([^"]*)"')


class RunFile(Protocol):
    """A file of a run, as far as it can be chosen by a name on the command line."""

    @property
    def program(self) -> str:
        """Program of the run."""
        ...

    @property
    def trace_id(self) -> str:
        """Trace id of the run."""
        ...

    @property
    def run_id(self) -> str:
        """Id of the run; "" if it is unknown."""
        ...


FileT = TypeVar("FileT", bound=RunFile)


@record
class TraceFile:
    """A trace file of a run.

    Attributes:
        path: Path of the file.
        at: Start of the run, in the file's name.
        program: Program of the run, in the file's name.
        trace_id: Trace id of the run.
    """

    path: Path
    at: str
    program: str
    trace_id: str

    @property
    def run_id(self) -> str:
        """Id of the run; "" if the file lacks one."""
        found = _RUN_ID.search(self.path.read_text(encoding="utf-8", errors="replace"))
        return found[1] if found else ""


def runs_folder() -> Path:
    """The folder of trace files and transcripts."""
    return telemetry.runs_folder(os.environ)


def trace_files(folder: Path) -> list[TraceFile]:
    """Trace files of a folder, newest first; [] if there is no folder."""
    found = []
    for path in folder.glob("*.json"):
        match = _FILE.fullmatch(path.name)
        if match:
            found.append(TraceFile(path, match[1], match[2], match[3]))
    return sorted(found, key=lambda one: one.path.name, reverse=True)


def find(wanted: str, folder: Path) -> Path:
    """The file of a run.

    Args:
        wanted: A path, `last`, or the beginning of a run's or trace's id.
        folder: Folder of trace files.

    Raises:
        UsageError: There is no such run, or there are several.
    """
    if Path(wanted).is_file():
        return Path(wanted)
    return chosen(wanted, trace_files(folder), folder).path


def chosen(wanted: str, files: Sequence[FileT], folder: Path) -> FileT:
    """One of some files of runs.

    Args:
        wanted: `last`, or the beginning of a run's or trace's id.
        files: The files, the newest first.
        folder: Their folder.

    Raises:
        UsageError: There is no such run, or there are several.
    """
    if not files:
        raise UsageError(
            f"there are no traces in {folder}",
            hint="run a program first, or name the folder with --folder",
        )
    if wanted == LAST:
        return files[0]
    ids = {one: (one.trace_id, one.run_id) for one in files}
    meant = [
        one for one, known in ids.items() if wanted and any(i.startswith(wanted) for i in known)
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        some = ", ".join(f"{ids[one][1]} ({one.program})" for one in meant[:5])
        raise UsageError(
            f"{wanted!r} is the beginning of {len(meant)} runs: {some}", hint="give more of it"
        )
    known = [one for pair in ids.values() for one in pair if one]
    close = get_close_matches(wanted, known, n=1, cutoff=0.5)
    raise UsageError(
        f"no run in {folder} begins with {wanted!r}",
        hint=f"did you mean {close[0]}?" if close else "agentrt trace ls shows them",
    )
