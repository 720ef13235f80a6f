"""The command `agentrt`, as far as it goes before the package is there.

It stands beside the package since whatever lies inside is run after `agentrt/__init__.py`, which
takes a third of a second: an interrupt in that time would end in Python's own traceback.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_INTERRUPTED = 130
_STDERR = 2


def main() -> NoReturn:
    """The entry point: `agentrt.cli.main`, where an interrupt is told as one from its first line.

    Whoever ignores interrupts, as `nohup` does for others, goes on ignoring them.
    """
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _end)
    from agentrt.cli.main import main as command

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _end(*_: object) -> NoReturn:
    os.write(_STDERR, b"interrupted\n")
    os._exit(_INTERRUPTED)
