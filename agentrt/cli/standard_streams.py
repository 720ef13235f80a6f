"""Standard streams of the command: those that are closed are opened, and a full disk is an error.

Python leaves a closed stream as None, and the next file that is opened gets its descriptor. What
is left in the buffer of standard output is written by the interpreter at its end, where a full
disk is two lines of its own and the exit code 120.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

STDIN, STDOUT, STDERR = 0, 1, 2
WIDTH = 80
"""Columns where there is no terminal."""


class StandardOutputError(OSError):
    """Standard output cannot be written; `errno` says why."""


def open_standard_streams() -> None:
    """Open the streams that are closed, and check each write of standard output.

    A closed standard input is an empty one. Writes to a closed standard output fail, as results
    must not vanish; those to a closed standard error do not.
    """
    _open_closed_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(
            io.BufferedReader(io.FileIO(STDIN, closefd=False)), encoding="utf-8"
        )
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(
            io.FileIO(STDERR, "w", closefd=False), encoding="utf-8", write_through=True
        )
    sys.stdout = checked_output(STDOUT, sys.stdout)


def checked_output(descriptor: int, like: object = None) -> io.TextIOWrapper:
    """A text stream to a descriptor whose writes raise `StandardOutputError`.

    Args:
        descriptor: The descriptor; it stays open.
        like: A stream whose encoding and buffering are taken over; None is buffered UTF-8.
    """
    raw = _CheckedFile(descriptor, "w", closefd=False)
    at_once = bool(getattr(like, "write_through", False))
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=getattr(like, "errors", None) or "strict",
        line_buffering=raw.isatty(),
        write_through=at_once,
    )


def terminal_width() -> int:
    """Columns of the terminal that standard output is; 0 if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def reading_width() -> int:
    """Columns for text that is read on a terminal, perhaps through a pager; 80 without any."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    for descriptor in (STDOUT, STDERR, STDIN):
        with suppress(OSError):
            if columns := os.get_terminal_size(descriptor).columns:
                return columns
    return WIDTH


class _CheckedFile(io.FileIO):
    """A descriptor that is led nowhere once a write has failed: the buffer is written again."""

    def write(self, data: Buffer, /) -> int:
        if not len(memoryview(data)):
            return 0  # asked by typer, which catches every error of it
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            raise StandardOutputError(error.errno, error.strerror) from None


def _open_closed_descriptors() -> None:
    modes = {STDIN: os.O_RDONLY, STDOUT: os.O_RDONLY, STDERR: os.O_WRONLY}
    for descriptor, mode in modes.items():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free
