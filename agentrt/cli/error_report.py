"""An error as three lines: event, place and remedy."""

from __future__ import annotations

import re
import traceback
from dataclasses import replace
from pathlib import Path

from agentrt.base.errors import AgentrtError, ErrorRecord, NotInstalled, UsageError, record_of
from agentrt.base.exception_groups import leaves, root_of

COMMAND_LINE = "the command line"
TRACEBACK_HINT = "run with -v for the traceback"
INTERRUPTED = 130
TERMINATED = 143
HUNG_UP = 129
_SETTING = re.compile(r"EngineConfig\((\w+)=([^()]*)\)")
_VALUE = re.compile(r"\b(\w+)=('\w+'|\d+)")
_FLAGS = frozenset(
    (
        *("device", "dtype", "weights", "weight_group", "head_weights", "activations"),
        *("kv_cache_dtype", "expert_memory", "threads", "seed", "kernels", "policy"),
        *("speculate_tokens", "draft_model", "draft_texts", "replay"),
    )
)
"""Settings of the engine that some command has a flag for; a file names the others."""
PACKAGE = Path(__file__).resolve().parent.parent


def report(error: BaseException, *, folder: Path | None = None) -> str:
    """Event, place and remedy as `three_lines`, in a single line if only an extra is missing."""
    lines = three_lines(error, folder=folder)
    if isinstance(root_of(error), NotInstalled):
        return "; ".join(" ".join(line.split()) for line in lines.splitlines())
    return lines


def three_lines(error: BaseException, *, folder: Path | None = None) -> str:
    """Event, place in the user's program, and remedy.

    Args:
        error: Error of agentrt's tree, or any exception of the program. The first of a group
            represents all.
        folder: Folder of the program; the place is the innermost frame below it.
    """
    return record_lines(error, located(error, folder=folder))


def record_lines(error: BaseException, record: ErrorRecord) -> str:
    """The lines of an error whose place and remedy are known."""
    from agentrt.analysis import error_lines

    others = len(list(leaves(error))) - 1
    return "\n".join(
        error_lines(
            replace(
                record,
                message=record.message + (f" (and {others} more)" if others else ""),
                where=", ".join([record.where, *notes_of(root_of(error))]),
            )
        )
    )


def located(error: BaseException, *, folder: Path | None = None) -> ErrorRecord:
    """The first error of a group as data, with its place and a remedy."""
    first = root_of(error)
    record = record_of(first)
    location = location_of(first, folder) or location_of(error, folder)
    if not location:
        record = in_flags(record)
    return replace(record, where=location or COMMAND_LINE, hint=record.hint or TRACEBACK_HINT)


def in_flags(record: ErrorRecord) -> ErrorRecord:
    """An error about a setting of the engine in the words of its flag, or of a file."""
    message, changes = _SETTING.subn(lambda found: _flag(found[1], found[2]), record.message)
    if not changes:
        return record
    return replace(record, message=message, hint=_VALUE.sub(_in_flag, record.hint))


def _in_flag(found: re.Match[str]) -> str:
    """A setting in a remedy as its flag; the same text if it has none."""
    return _flag(found[1], found[2]) if found[1] in _FLAGS else found[0]


def _flag(name: str, value: str) -> str:
    if name not in _FLAGS:
        return f"{name}={value}"
    return f"--{name.replace('_', '-')} {value.strip(chr(39))}"


def notes_of(error: BaseException) -> list[str]:
    """Notes of the runtime about the nodes that the error came through, innermost first."""
    return [note for note in getattr(error, "__notes__", []) if note.startswith("in ")]


def location_of(error: BaseException, folder: Path | None = None) -> str:
    """`file:line` in the user's program: the error's own, else that of the innermost frame."""
    where = str(getattr(error, "where", ""))
    if re.search(r":\d+", where):
        return where
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shortened(Path(error.filename))}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if is_users(path, folder):
            return f"{shortened(path)}:{frame.lineno} in {frame.name}"
    return where


def helpful_traceback(error: BaseException, folder: Path | None = None) -> str:
    """The traceback that -v adds; "" if it shows nothing that the three lines do not.

    That is so for a wrong input with a remedy, found before any code of the program ran.
    """
    first = root_of(error)
    frames = [
        *traceback.extract_tb(error.__traceback__),
        *traceback.extract_tb(first.__traceback__),
    ]
    is_told = isinstance(first, UsageError) and bool(first.hint)
    if not frames or (is_told and not any(is_users(Path(one.filename), folder) for one in frames)):
        return ""
    return "".join(traceback.format_exception(error))


def is_users(path: Path, folder: Path | None) -> bool:
    """Whether a frame is the user's code, not ours or a library's."""
    if path.is_relative_to(PACKAGE) or "site-packages" in path.parts:
        return False
    return path.is_relative_to(folder) if folder else path.is_relative_to(Path.cwd())


def shortened(path: Path) -> str:
    """The path relative to the working directory, if it is below it."""
    full = path.resolve()
    here = Path.cwd()
    return str(full.relative_to(here)) if full.is_relative_to(here) else str(path)


def exit_code_of(error: BaseException) -> int:
    """Exit code of the process; 1 for exceptions of the program itself."""
    first = root_of(error)
    if isinstance(first, AgentrtError):
        return first.exit_code
    if isinstance(first, SystemExit):  # the program's own choice
        return first.code if isinstance(first.code, int) else int(first.code is not None)
    return INTERRUPTED if isinstance(first, KeyboardInterrupt) else 1
