"""The validation process: reads grammars, and writes the compiler's complaint or texts of each.

Run by path, so that it imports the compiler and nothing else. Time and memory are limited by the
kernel, since native code cannot be interrupted in any other way.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path
from random import Random

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

_CPU_S = 2.0
_MORE_BYTES = 1 << 30
_IDLE_S = 30.0
_LENGTH = struct.Struct(">I")
WANTS_TEXTS = b"t"
WANTS_COMPLAINT = b"c"
"""First byte of a payload; the grammar follows."""

_TEXTS = 33
_TEXTS_CPU_S = 0.02
_LONG_BYTES, _MOST_BYTES = 60, 2_000
_END = 261
_ENDS = b'"]},;'
_SHORT = b"0123456789tfn"
_PRINTABLE = bytes(range(32, 127))
_TRIES = 6


def main() -> None:
    """Validate the grammars on standard input, until its end or until there are none for a while.

    A frame is a payload with four bytes of length before it.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit_memory()
    while (order := _order()) is not None:
        signal.setitimer(signal.ITIMER_PROF, _CPU_S)
        answer = _answer(order[:1], order[1:]).encode("utf-8", "replace")
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        answers.write(_LENGTH.pack(len(answer)) + answer)
        answers.flush()


def sample_texts(grammar: str) -> list[str]:
    """Different texts of a grammar, a short one and some at random; the same ones each time.

    Fewer are drawn if they take more than their share of CPU time.
    """
    matcher = LLMatcher(_bytes(), grammar, limits=_limits(), log_level=0)
    ends_s = time.process_time() + _TEXTS_CPU_S
    texts: dict[str, None] = {}
    for number in range(_TEXTS):
        text = _walk(matcher.deep_copy(), Random(number), is_short=number == 0)
        if text is not None:
            texts[text] = None
        if time.process_time() > ends_s:
            break
    return list(texts)


def _answer(wanted: bytes, payload: bytes) -> str:
    grammar = payload.decode("utf-8", "replace")
    if wanted == WANTS_TEXTS:
        return json.dumps(sample_texts(grammar))
    return LLMatcher.validate_grammar(grammar, limits=_limits())


def _walk(matcher: LLMatcher, dice: Random, *, is_short: bool) -> str | None:
    """One text; None if it finds no end."""
    written = bytearray()
    while len(written) < _MOST_BYTES:
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        closes = is_short or len(written) > _LONG_BYTES or dice.random() < 0.2
        if mask >> _END & 1 and (closes or mask == 1 << _END):
            return written.decode(errors="replace")
        byte = _next_byte(mask & ((1 << 256) - 1), dice, closes=closes)
        if byte is None or not matcher.consume_token(byte):
            return None
        written.append(byte)
        forced = matcher.compute_ff_bytes()
        if forced and matcher.consume_tokens(list(forced)):
            written += forced
    return None


def _next_byte(mask: int, dice: Random, *, closes: bool) -> int | None:
    """A byte of a mask, one that leads to the end if the text is to close."""
    preferred = (*_ENDS, *_SHORT) if closes else dice.choices(_PRINTABLE, k=_TRIES)
    for byte in preferred:
        if mask >> byte & 1:
            return byte
    allowed = [byte for byte in range(256) if mask >> byte & 1]
    return dice.choice(allowed) if allowed else None


@functools.cache
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")


def _limits() -> LLParserLimits:
    return LLParserLimits(verbose_errors=False)


def _order() -> bytes | None:
    if not select.select([0], [], [], _IDLE_S)[0]:
        return None
    head = _read(_LENGTH.size)
    return None if head is None else _read(*_LENGTH.unpack(head))


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
