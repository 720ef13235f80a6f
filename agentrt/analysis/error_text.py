"""An error in three lines: what, where, how to fix."""

from __future__ import annotations

from agentrt.base.errors import ErrorRecord
from agentrt.base.errors import record_of as as_record

_NO_PLACE = "not in the program's code"
_NO_HINT = "run with -v for the traceback"


def error_lines(error: BaseException | ErrorRecord) -> tuple[str, str, str]:
    """Event, place (`file:line` in the user's program) and remedy of an error, one line each.

    The notes of the runtime on an exception (`in node ...`) give the place more exactly.
    """
    record = error if isinstance(error, ErrorRecord) else as_record(error)
    notes = [] if isinstance(error, ErrorRecord) else getattr(error, "__notes__", [])
    places = [record.where] if record.where else []
    places += [note for note in notes if isinstance(note, str) and note.startswith("in ")]
    return (
        f"error: {record.type}: {_one_line(record.message)}",
        f"where: {_one_line(', '.join(places)) or _NO_PLACE}",
        f"fix:   {_one_line(record.hint) or _NO_HINT}",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
