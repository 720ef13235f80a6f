"""Reading a body in a process that can be killed."""

from __future__ import annotations

import json
import threading
import time
from array import array

from agentrt.base.errors import InternalError
from agentrt.base.segments import PromptIds
from agentrt.program import Chat
from agentrt.protocol.child_process import ChildProcess
from agentrt.serve import reader_wire as wire
from agentrt.serve.body_routes import BodyRoute
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_builder import CompletionRequest, output_of

WALL_S = 15.0
"""CPU time decides, which the process limits: this is for machines that are very busy."""
_START_S = 120.0
_ABANDONED_S = 1.0
"""Time that reading goes on without its client: about as long as another process takes to start."""
_LOOK_S = 0.2
_KILLED = -9


class TooCostlyToRead(Exception):
    """The process ended by its own limits or by a fault of native code."""


class BodyReader:
    """Reads bodies one after the other; blocks, and belongs in a worker thread.

    Args:
        model: The model of all bodies.

    Attributes:
        starts: Number of processes started so far.
    """

    def __init__(self, model: wire.ReaderModel) -> None:
        self._model = model
        self._child: ChildProcess | None = None
        self.starts = 0

    @property
    def is_warm(self) -> bool:
        """Whether its process has started."""
        return self._child is not None

    @property
    def pid(self) -> int:
        """Id of its process; 0 without one."""
        return self._child.pid if self._child is not None else 0

    def start(self) -> None:
        """Start the process, unless it runs.

        Raises:
            InternalError: The process does not start with this model.
        """
        self._running()

    def read(
        self, route: BodyRoute, body: bytes, cache_salt: str, is_abandoned: threading.Event
    ) -> CompletionRequest:
        """Read a body.

        Args:
            route: Route of the request.
            body: The JSON.
            cache_salt: Salt of the tenant.
            is_abandoned: Set once the result is of no use.

        Raises:
            RequestRefused: The body makes no request, or the machine is too busy.
            TooCostlyToRead: Reading it took too much time or memory.
            InternalError: A bug of the server.
        """
        child = self._running()
        ends_s = time.monotonic() + WALL_S
        child.send(wire.ORDERS.frame(wire.ReadBody(route, body, cache_salt)), ends_s)
        answer = self._answer(child, ends_s, is_abandoned)
        match answer:
            case wire.BodyRead():
                return _request(answer)
            case wire.BodyRefused(status, message, param, code):
                raise RequestRefused(status, message, param=param, code=code)
            case wire.ReadingBroke(error):
                raise InternalError(f"reading a body failed: {error}")
        self._child = None
        if child.end() in (None, _KILLED):
            why = "the server is too busy to read a request of this size: come back soon"
            raise RequestRefused(503, why)
        raise TooCostlyToRead

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _answer(
        self, child: ChildProcess, ends_s: float, is_abandoned: threading.Event
    ) -> wire.Answer | None:
        while (now_s := time.monotonic()) < ends_s:
            if is_abandoned.is_set():
                ends_s = min(ends_s, now_s + _ABANDONED_S)
                is_abandoned = threading.Event()
            payload = child.receive(min(ends_s, now_s + _LOOK_S))
            if payload is not None:
                return wire.ANSWERS.value(payload)
            if not child.is_alive:
                break
        return None

    def _running(self) -> ChildProcess:
        child = self._child
        if child is None or not child.is_alive:
            self.close()
            child = self._started()
        return child

    def _started(self) -> ChildProcess:
        self.starts += 1
        child = ChildProcess("-m", "agentrt.serve.reader_child")
        ends_s = time.monotonic() + _START_S
        child.send(wire.ORDERS.frame(self._model), ends_s)
        payload = child.receive(ends_s)
        if payload is None or wire.ANSWERS.value(payload) != wire.ReaderReady(
            self._model.fingerprint
        ):
            child.end()
            raise InternalError("the process that reads bodies does not start with this model")
        self._child = child
        return child


def _request(read: wire.BodyRead) -> CompletionRequest:
    ids = tuple(array("I", read.token_ids))
    return CompletionRequest(
        Chat(pieces=(PromptIds(ids),)),
        output_of("chat", read.constraint, read.terms, keep_special=read.calls_in != "none"),
        json.loads(read.options),
        read.calls_in,
        read.terms,
    )
