"""Trying a constraint in a process that can be killed, before it is compiled in this one."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, InternalError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.wire import FrameReader
from agentrt.structured.sandbox.probe_wire import (
    ANSWERS,
    ORDERS,
    Answer,
    Closes,
    Compiled,
    ConstraintRefused,
    Learn,
    ProbeReady,
    Try,
    TryLimits,
    Way,
)

MORE_BYTES = 1 << 30
"""Memory that compiling one constraint may take."""

_STILL_S = 30.0
"""A process that has not computed at all for so long does not start."""
_LEARN_CPU_S = 60.0
_READ_BYTES = 1 << 16


class TooDear(Exception):
    """A try was killed on the way: it took more time or memory than it may."""


class ProbeProcess:
    """A process that tries constraints, and its two pipes."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._reader = FrameReader()
        self._answers: list[Answer] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentrt.structured.sandbox.probe_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._kill = weakref.finalize(self, _kill, self._process)  # when nobody says `end`

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def send(self, order: Learn | Try) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is dead: `receive` finds out
            pipe = _pipe(self._process.stdin)
            pipe.write(ORDERS.frame(order))
            pipe.flush()

    def receive(self, ends_s: float) -> Answer | None:
        """Its next answer; None when it died, or has not answered by then."""
        source = _pipe(self._process.stdout).fileno()
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while not self._answers:
            ready = poll.poll(max(0.0, ends_s - time.monotonic()) * 1e3)
            data = os.read(source, _READ_BYTES) if ready else b""
            if not data:
                return None
            self._answers += [ANSWERS.value(payload) for payload in self._reader.feed_data(data)]
        return self._answers.pop(0)

    def starts(self) -> bool:
        """Wait until it has learnt what it was told; False when it does not come to that.

        It is waited for as long as it gets on, by its own time: beside busy processes, it can take
        half a minute of ours for what is a second of it.
        """
        computed_s = 0.0
        while (answer := self.receive(time.monotonic() + _STILL_S)) is None:
            before_s, computed_s = computed_s, self.computed_s()
            if not self.lives or not before_s < computed_s < _LEARN_CPU_S:
                return False
        return isinstance(answer, ProbeReady)

    def computed_s(self) -> float:
        """How long it has computed, as far as the system tells."""
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
            ticks = stat.rpartition(")")[2].split()[11:13]  # of its own, and of the system for it
            return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def end(self) -> None:
        self._kill()


class CompileProbe:
    """A process that is started when the first constraint looks hostile. Thread-safe.

    Args:
        more_bytes: Memory that a try may take.
        started: Starts a process for the vocabulary of a fingerprint.

    Attributes:
        starts: How many processes it took so far.
    """

    def __init__(
        self,
        more_bytes: int = MORE_BYTES,
        started: Callable[[str], ProbeProcess] = ProbeProcess,
    ) -> None:
        self._more_bytes = more_bytes
        self._started = started
        self._lock = threading.Lock()
        self._child: ProbeProcess | None = None
        self.starts = 0

    def shortest(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame, way: Way, limits: TryLimits
    ) -> tuple[int, ...] | None:
        """Compile it over there.

        Returns:
            Its shortest whole text, where one was found within the limits.

        Raises:
            TooDear: It did not compile within the limits.
            ConstraintError: It does not compile.
        """
        with self._lock:
            child = self._for(vocab)
            compiled = False
            ends_s = time.monotonic() + limits.wall_s
            child.send(Try(spec, frame, way, limits))
            while True:
                answer = child.receive(ends_s)
                match answer:
                    case Compiled():
                        compiled = True
                    case Closes(tokens):
                        return tokens
                    case ConstraintRefused(message, pointer, keyword, hint):
                        raise ConstraintError(message, pointer=pointer, keyword=keyword, hint=hint)
                    case _:
                        self._end()
                        if compiled:
                            return None  # only the search took too long
                        raise TooDear

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _for(self, vocab: Vocab) -> ProbeProcess:
        """A process that knows the vocabulary."""
        child = self._child
        if child is not None and child.fingerprint == vocab.fingerprint and child.lives:
            return child
        self._end()
        self.starts += 1
        child = self._child = self._started(vocab.fingerprint)
        child.send(Learn(vocab, self._more_bytes))
        if not child.starts():
            self._end()
            raise InternalError("the process that tries constraints does not start")
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            _pipe(pipe).close()
    process.wait()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
