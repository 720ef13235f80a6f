"""The sandbox: trying a constraint in a process that can be killed, before compiling it here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from agentrt.base.errors import InternalError
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.child_process import ChildProcess
from agentrt.structured.json_schema.declaration_wire import ConstraintRefused
from agentrt.structured.sandbox import probe_wire as wire

MORE_BYTES = 1 << 30
"""Memory limit of compiling one constraint."""

_NO_PROGRESS_S = 30.0
"""A process without any CPU time for so long has failed to start."""
_START_CPU_S = 60.0


class CompileTooCostly(Exception):
    """A try was killed: it exceeded its time or memory."""


class ProbeProcess(ChildProcess):
    """A process that tries constraints of one vocabulary."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__("-m", "agentrt.structured.sandbox.probe_child")
        self.fingerprint = fingerprint

    def order(self, order: wire.Learn | wire.Try, ends_s: float) -> None:
        """Send an order."""
        self.send(wire.ORDERS.frame(order), ends_s)

    def answer(self, ends_s: float) -> wire.Answer | None:
        """The next answer; None if the process died or has not answered in time."""
        payload = self.receive(ends_s)
        return None if payload is None else wire.ANSWERS.value(payload)

    def wait_ready(self) -> bool:
        """Wait until the process has its vocabulary; False if it fails to start.

        The wait lasts as long as the process makes progress in CPU time: on a busy machine one
        second of it can take half a minute.
        """
        computed_s = 0.0
        while (answer := self.answer(time.monotonic() + _NO_PROGRESS_S)) is None:
            before_s, computed_s = computed_s, self.computed_s()
            if not self.is_alive or not before_s < computed_s < _START_CPU_S:
                return False
        return isinstance(answer, wire.ProbeReady)


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

    def find_shortest(self, order: wire.Try, vocab: Vocab) -> wire.Closes:
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
            child.order(order, ends_s)
            while True:
                answer = child.answer(ends_s)
                match answer:
                    case wire.Compiled():
                        compiled = True
                    case wire.Closes():
                        return answer
                    case ConstraintRefused():
                        raise answer.error()
                    case _:
                        self._end()
                        if compiled:
                            return wire.Closes(None, 0, "the search for one takes too long")
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
        child.order(wire.Learn(vocab, self._more_bytes), time.monotonic() + _START_CPU_S)
        if not child.wait_ready():
            self._end()
            raise InternalError("the process that tries constraints does not start")
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()
