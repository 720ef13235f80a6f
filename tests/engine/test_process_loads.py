"""Loads of an engine that fail: which of them count, and what they do to requests that wait."""

import os
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process.backend import MAX_LOADS, EmbeddedBackend
from agentrt.engine.process.child import ChildExit
from agentrt.engine.process.life_signs import LifeSigns
from agentrt.engine.process.messages import COMMANDS, REPORTS
from agentrt.protocol.backend import Capabilities, GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import BackendDown, BackendEvent
from agentrt.protocol.wire import FrameReader

KILLED = ChildExit("killed by signal 9", "", -9)
BROKEN = ChildExit("exit code 3", "no licence", 3)
REQUEST = GenerateRequest(
    RequestId(1), RunId("run"), NodeId("node"), "", TokenPrompt((1,)), SamplingParams()
)


class Scripted:
    """A child that loads, or ends at once."""

    def __init__(self, ended: ChildExit | None) -> None:
        self.owner_socket, self._socket = socket.socketpair()
        with tempfile.TemporaryFile() as page:
            self.signs: LifeSigns | None = LifeSigns.on_new(page)
        self.pid = os.getpid()
        self._ended = ended
        if ended is None:
            self._socket.sendall(REPORTS.frame(Capabilities("embedded", "scripted", "tokens")))
        else:
            self._socket.close()

    def kill(self) -> None:
        self._socket.close()

    def wait(self, timeout_s: float) -> ChildExit:
        self.kill()
        return self._ended or KILLED

    async def commands_until(self, last: object) -> None:
        """Read commands until one arrives."""
        reader = FrameReader()
        self._socket.setblocking(False)
        while True:
            await anyio.wait_readable(self._socket)
            found = [COMMANDS.value(one) for one in reader.feed_data(self._socket.recv(1 << 16))]
            if last in found:
                return


class Loads:
    """Children as a script says, and a backend that starts them."""

    def __init__(self, script: Iterable[ChildExit | None]) -> None:
        self._script = list(script)
        self.children: list[Scripted] = []
        self.backend = EmbeddedBackend(
            EngineConfig(Path()),
            MonotonicClock(),
            start_child=self._start_child,
            pause_s=lambda deaths: 0.0,
        )

    def _start_child(self) -> Scripted:
        self.children.append(Scripted(self._script[len(self.children)]))
        return self.children[-1]

    async def lose_the_first(self) -> list[BackendEvent]:
        """Lose the engine that loads first, and submit a request; the events until its outcome."""
        events: list[BackendEvent] = []
        await self.backend.start()
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async for event in self.backend.events():
                    events.append(event)
                    if isinstance(event, BackendDown) and not event.restarting:
                        tasks.cancel_scope.cancel()
                    elif len(events) == 1:
                        self.backend.submit(REQUEST)

            tasks.start_soon(read)
            self.children[-1].kill()
            while len(self.children) < len(self._script):
                await anyio.lowlevel.checkpoint()
            await self.children[-1].commands_until(REQUEST)
            tasks.cancel_scope.cancel()
        await self.backend.aclose()
        return events


def lose_the_first(*script: ChildExit | None) -> list[BackendEvent]:
    return anyio.run(Loads(script).lose_the_first)


def test_loads_that_are_killed_from_outside_fail_no_request_that_waits() -> None:
    (down,) = lose_the_first(None, *[KILLED] * 3 * MAX_LOADS, None)
    assert isinstance(down, BackendDown)
    assert (down.restarting, down.own_fault) == (True, False)


def test_between_other_loads_they_do_not_count() -> None:
    loads = [BROKEN, KILLED] * (MAX_LOADS - 1)
    assert len(lose_the_first(None, *loads, None)) == 1


def test_loads_that_end_by_themselves_fail_what_waits_in_the_end() -> None:
    _, refusal = lose_the_first(None, *[BROKEN] * MAX_LOADS, None)
    assert isinstance(refusal, BackendDown)
    assert refusal.lost == (REQUEST.request_id,)
    assert "cannot start again" in refusal.error.message
    assert "no licence" in refusal.error.hint


def test_a_first_load_that_is_killed_is_followed_by_another() -> None:
    assert len(lose_the_first(KILLED, None, None)) == 1


def test_a_first_load_that_ends_by_itself_is_the_last() -> None:
    loads = Loads([BROKEN, None])
    with pytest.raises(EngineUnavailable, match="exit code 3"):
        anyio.run(loads.backend.start)
    assert len(loads.children) == 1
