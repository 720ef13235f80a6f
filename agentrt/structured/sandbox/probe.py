"""The sandbox: trying a constraint in a process that can be killed, before compiling it here."""

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

from agentrt.base.child_environment import child_environment
from agentrt.base.errors import ConstraintError, InternalError
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.wire import FrameReader
from agentrt.structured.sandbox import probe_wire as wire

MORE_BYTES = 1 << 30
"""Memory limit of compiling one constraint."""

_NO_PROGRESS_S = 30.0
"""A process without any CPU time for so long has failed to start."""
_START_CPU_S = 60.0
_READ_BYTES = 1 << 16


class CompileTooCostly(Exception):
    """A try was killed: it exceeded its time or memory."""


class ProbeProcess:
    """A process that tries constraints, with its two pipes."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._reader = FrameReader()
        self._answers: list[wire.Answer] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentrt.structured.sandbox.probe_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **child_environment(os.environ),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )
        self._kill = weakref.finalize(self, _kill, self._process)  # if `end` is not called

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, order: wire.Learn | wire.Try) -> None:
        with contextlib.suppress(BrokenPipeError):  # the process is dead: `receive` returns None
            pipe = _pipe(self._process.stdin)
            pipe.write(wire.ORDERS.frame(order))
            pipe.flush()

    def receive(self, ends_s: float) -> wire.Answer | None:
        """The next answer; None if the process died or has not answered in time."""
        source = _pipe(self._process.stdout).fileno()
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while not self._answers:
            ready = poll.poll(max(0.0, ends_s - time.monotonic()) * 1e3)
            data = os.read(source, _READ_BYTES) if ready else b""
            if not data:
                return None
            self._answers += [
                wire.ANSWERS.value(payload) for payload in self._reader.feed_data(data)
            ]
        return self._answers.pop(0)

    def wait_ready(self) -> bool:
        """Wait until the process has its vocabulary; False if it fails to start.

        The wait lasts as long as the process makes progress in CPU time: on a busy machine one
        second of it can take half a minute.
        """
        computed_s = 0.0
        while (answer := self.receive(time.monotonic() + _NO_PROGRESS_S)) is None:
            before_s, computed_s = computed_s, self.computed_s()
            if not self.is_alive or not before_s < computed_s < _START_CPU_S:
                return False
        return isinstance(answer, wire.ProbeReady)

    def computed_s(self) -> float:
        """CPU time of the process, if the system reports it; else 0."""
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
            ticks = stat.rpartition(")")[2].split()[11:13]  # user and system time
            return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def end(self) -> None:
        self._kill()


class CompileProbe:
    """Compiles suspicious constraints in a process, started for the first one. Thread-safe.

    Args:
        more_bytes: Memory limit of a try.
        start_process: Starts a process for the vocabulary of a fingerprint.

    Attributes:
        starts: Number of processes started so far.
    """

    def __init__(
        self,
        more_bytes: int = MORE_BYTES,
        start_process: Callable[[str], ProbeProcess] = ProbeProcess,
    ) -> None:
        self._more_bytes = more_bytes
        self._start_process = start_process
        self._lock = threading.Lock()
        self._child: ProbeProcess | None = None
        self.starts = 0

    def find_shortest(self, order: wire.Try, vocab: Vocab) -> tuple[int, ...] | None:
        """Compile a constraint in the process.

        Returns:
            Its shortest complete text, if one was found within the limits.

        Raises:
            CompileTooCostly: The constraint exceeded the limits.
            ConstraintError: The constraint does not compile.
        """
        with self._lock:
            child = self._process_for(vocab)
            compiled = False
            ends_s = time.monotonic() + order.limits.wall_s
            child.send(order)
            while True:
                answer = child.receive(ends_s)
                match answer:
                    case wire.Compiled():
                        compiled = True
                    case wire.Closes(tokens):
                        return tokens
                    case wire.ConstraintRefused(message, pointer, keyword, hint):
                        raise ConstraintError(message, pointer=pointer, keyword=keyword, hint=hint)
                    case _:
                        self._end()
                        if compiled:
                            return None  # only the search took too long
                        raise CompileTooCostly

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _process_for(self, vocab: Vocab) -> ProbeProcess:
        """A process that has the vocabulary."""
        child = self._child
        if child is not None and child.fingerprint == vocab.fingerprint and child.is_alive:
            return child
        self._end()
        self.starts += 1
        child = self._child = self._start_process(vocab.fingerprint)
        child.send(wire.Learn(vocab, self._more_bytes))
        if not child.wait_ready():
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
