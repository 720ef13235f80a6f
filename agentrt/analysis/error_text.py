"""An error in three lines: what, where, how to fix."""

from __future__ import annotations

from agentrt.base.errors import ErrorRecord
from agentrt.base.errors import record_of as as_record

_NO_PLACE = "not in the program's code"
_NO_HINT = "run with -v for the traceback"


def error_lines(error: BaseException | ErrorRecord) -> tuple[str, str, str]:
    """Event, place (`file:line` in the user's program) and remedy of an error, one line each.

    Notes that the runtime added to an exception (`in node ...`) tell the place more exactly.
    """
    told = error if isinstance(error, ErrorRecord) else as_record(error)
    notes = [] if isinstance(error, ErrorRecord) else getattr(error, "__notes__", [])
    places = [told.where] if told.where else []
    places += [note for note in notes if isinstance(note, str) and note.startswith("in ")]
    return (
        f"error: {told.type}: {_one_line(told.message)}",
        f"where: {_one_line(', '.join(places)) or _NO_PLACE}",
        f"fix:   {_one_line(told.hint) or _NO_HINT}",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
