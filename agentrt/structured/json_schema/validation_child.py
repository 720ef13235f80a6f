"""The validation process: reads a grammar, writes the compiler's complaint, and ends.

Run by path, so that it imports the compiler and nothing else. Time and memory are limited by the
kernel, since native code cannot be interrupted in any other way.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from llguidance import LLMatcher, LLParserLimits

_CPU_S = 2.0
_MORE_BYTES = 1 << 30


def main() -> None:
    """Validate the grammar on standard input."""
    grammar = sys.stdin.buffer.read().decode("utf-8", "replace")
    _limit_memory()
    signal.setitimer(signal.ITIMER_PROF, _CPU_S)
    limits = LLParserLimits(verbose_errors=False)
    complaint: str = LLMatcher.validate_grammar(grammar, limits=limits)
    sys.stdout.buffer.write(complaint.encode("utf-8", "replace"))


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
