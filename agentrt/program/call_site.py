"""Call sites: the line of the user's program that made a node, found cheaply."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from contextvars import ContextVar
from pathlib import Path

import anyio


def _folder(file: str | None) -> str:
    return str(Path(str(file)).resolve().parent) + os.sep


PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
"""Beginning of the names of this package's files."""

INNER = (PACKAGE, _folder(asyncio.__file__), _folder(anyio.__file__))
"""Beginnings of the names of files of this package and of event loops."""

_NOT_USER_CODE = (PACKAGE, _folder(os.__file__), "<")
_PASSED_THROUGH = (PACKAGE, str(Path(contextlib.__file__).resolve()))
_shown: dict[str, str] = {}

task_site: ContextVar[str] = ContextVar("agentrt_task_site", default="")
"""Call site of the program to which a task belongs; "" outside programs."""


def call_site() -> str:
    """`file:line` of the nearest caller outside this package; about a microsecond.

    In a task that has only code of this package, such as an `agent`, it is the line that called
    the program around it.
    """
    frame = sys._getframe(1)
    name = frame.f_code.co_filename
    while frame.f_back is not None and name.startswith(_PASSED_THROUGH):
        frame = frame.f_back
        name = frame.f_code.co_filename
    if name.startswith(INNER) and (site := task_site.get()):
        return site
    return f"{_shown.get(name) or shorten(name)}:{frame.f_lineno}"


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
