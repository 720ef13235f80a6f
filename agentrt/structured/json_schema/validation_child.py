"""The validation process: reads grammars, and writes the compiler's complaint about each.

Run by path, so that it imports the compiler and nothing else. Time and memory are limited by the
kernel, since native code cannot be interrupted in any other way.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
from pathlib import Path

from llguidance import LLMatcher, LLParserLimits

_CPU_S = 2.0
_MORE_BYTES = 1 << 30
_IDLE_S = 30.0
_LENGTH = struct.Struct(">I")


def main() -> None:
    """Validate the grammars on standard input, until its end or until there are none for a while.

    A frame is a payload with four bytes of length before it.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit_memory()
    limits = LLParserLimits(verbose_errors=False)
    while (grammar := _grammar()) is not None:
        signal.setitimer(signal.ITIMER_PROF, _CPU_S)
        complaint = LLMatcher.validate_grammar(grammar, limits=limits).encode("utf-8", "replace")
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        answers.write(_LENGTH.pack(len(complaint)) + complaint)
        answers.flush()


def _grammar() -> str | None:
    if not select.select([0], [], [], _IDLE_S)[0]:
        return None
    head = _read(_LENGTH.size)
    payload = None if head is None else _read(*_LENGTH.unpack(head))
    return None if payload is None else payload.decode("utf-8", "replace")


def _read(size: int) -> bytes | None:
    """The next bytes; None at the end of standard input."""
    found = bytearray()
    while len(found) < size:
        data = os.read(0, size - len(found))
        if not data:
            return None
        found += data
    return bytes(found)


def _limit_memory() -> None:
    """Limit memory beyond what is mapped now (Linux only)."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
    main()
