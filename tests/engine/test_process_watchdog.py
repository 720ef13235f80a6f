"""When an engine counts as silent, in virtual time."""

import socket
from contextlib import aclosing
from pathlib import Path

import anyio

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process import backend
from agentrt.engine.process.child import ChildExit
from agentrt.engine.process.messages import REPORTS, Ping
from agentrt.engine.process.watchdog import stalls
from agentrt.protocol.backend import Capabilities, GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import BackendDown
from agentrt.testing import run_virtual


class Engine:
    """Answers its first pings, until it does no more."""

    def __init__(self, answers, works_s=1e9):
        self.received_count = 0
        self.answers = answers
        self.asked = 0
        self.works_s = works_s

    def send(self, command):
        assert isinstance(command, Ping)
        self.asked += 1
        if self.asked <= self.answers:
            self.received_count += 1

    async def watch(self, stall_s):
        began_s = anyio.current_time()
        silent = await stalls(self, lambda: anyio.current_time() - began_s < self.works_s, stall_s)
        return silent, anyio.current_time() - began_s


def test_an_engine_that_never_answers_is_noticed_in_time():
    assert run_virtual(Engine(0).watch, 8.0) == (True, 8.0)


def test_one_that_answered_before_has_the_whole_time_again():
    assert run_virtual(Engine(5).watch, 8.0) == (True, 18.0)


def test_nobody_asks_once_the_work_is_done():
    engine = Engine(10**6, works_s=100.0)
    silent, after_s = run_virtual(engine.watch, 8.0)
    assert not silent
    assert after_s == 100.0
    assert engine.asked == 50


def test_what_ends_by_itself_in_silence_is_not_silent():
    assert run_virtual(Engine(0, works_s=8.0).watch, 8.0) == (False, 8.0)


class Mute:
    """A child that loads, and never says another word."""

    signs = pid = None

    def __init__(self, config):
        self.owner_socket, self.theirs = socket.socketpair()
        self.theirs.sendall(REPORTS.frame(Capabilities("embedded", "mute", "tokens")))

    def kill(self):
        self.theirs.close()

    def wait(self, patience_s):
        self.kill()
        return ChildExit("killed by signal 9", "")


def test_an_engine_that_stops_answering_is_ended_and_its_requests_are_lost(monkeypatch):
    monkeypatch.setattr(backend, "ProcessChild", Mute)
    request = GenerateRequest(
        RequestId(1), RunId("run"), NodeId("node"), "", TokenPrompt((1,)), SamplingParams()
    )

    async def first_event():
        engine = backend.EmbeddedBackend(EngineConfig(Path(), stall_s=0.1), MonotonicClock())
        await engine.start()
        engine.submit(request)
        async with aclosing(engine.events()) as events:  # type: ignore[type-var]
            event = await anext(events)
        await engine.aclose()
        return event

    down = anyio.run(first_event)
    assert isinstance(down, BackendDown)
    assert down.lost == (1,)
    assert down.restarting
    assert down.error.type == "EngineDied"
    assert "no answer for 0.1 s" in down.error.message
