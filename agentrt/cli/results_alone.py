"""Standard output for results alone: what a program or a tool prints goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

STDOUT, STDERR = 1, 2


@contextmanager
def results_alone() -> Iterator[TextIO]:
    """Lead standard output to standard error meanwhile; gives the stream of the results.

    Output of processes that a tool starts goes there too. If both are one terminal or one file,
    nothing changes: results then stand between the other lines in their order.
    """
    results = sys.stdout
    if sys.stderr is None or is_same_file(results, sys.stderr):
        yield results
        return
    with redirect_stdout(sys.stderr):
        if _descriptor(results) != STDOUT:  # as in tests, where it is no file
            yield results
            return
        results.flush()
        kept = os.dup(STDOUT)
        try:
            os.dup2(STDERR, STDOUT)
            with open(
                kept, "w", encoding=results.encoding, errors=results.errors, closefd=False
            ) as stream:
                yield stream
        finally:
            os.dup2(kept, STDOUT)
            os.close(kept)


def is_same_file(one: TextIO, other: TextIO) -> bool:
    """Whether both streams write to one file or one terminal."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or no file
        return False


def _descriptor(stream: TextIO) -> int:
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return -1
