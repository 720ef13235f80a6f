"""The command `agentrt`, as far as it goes before the package is there.

It stands beside the package since whatever lies inside is run after `agentrt/__init__.py`, which
takes a third of a second: an interrupt in that time would end in Python's own traceback. With
`python -m agentrt` Python itself begins with that file, so the package imports this one first.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

_INTERRUPTED = 130
_STDERR = 2


def main() -> NoReturn:
    """The entry point: `agentrt.cli.main`, where an interrupt is told as one from its first line.

    Whoever ignores interrupts, as `nohup` does for others, goes on ignoring them.
    """
    _listen()
    from agentrt.cli.main import main as command

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _listen() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(*_: object) -> NoReturn:
    os.write(_STDERR, b"interrupted\n")
    os._exit(_INTERRUPTED)


def _is_looked_for() -> bool:
    """Whether Python was told `-m agentrt` and is on its way to `agentrt/__main__.py`."""
    if sys.argv[:1] != ["-m"]:
        return False  # a program may have changed them, to more than there were or to none
    named = sys.orig_argv[-len(sys.argv)]  # what stands before the arguments
    return named in ("agentrt", "-magentrt")


if _is_looked_for():
    _listen()
