"""Call sites: the line of the user's program that made a node, found cheaply."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_NOT_USER_CODE = (_PACKAGE, str(Path(os.__file__).resolve().parent) + os.sep, "<")
_shown: dict[str, str] = {}


def call_site() -> str:
    """`file:line` of the nearest caller outside this package; about a microsecond."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{shorten(name)}:{frame.f_lineno}"


def raised_at(error: BaseException) -> str:
    """`file:line` of the innermost user code that an error passed through, or ""."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(_NOT_USER_CODE) and "site-packages" not in name:
            found = f"{shorten(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def shorten(name: str) -> str:
    """`name` relative to the working directory if it lies below it."""
    shown = _shown.get(name)
    if shown is None:
        shown = _shown[name] = _shorten(name)
    return shown


def _shorten(name: str) -> str:
    path = os.path.relpath(name) if os.path.isabs(name) else name
    return name if path.startswith("..") else path
