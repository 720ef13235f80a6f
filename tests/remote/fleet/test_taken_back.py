"""A request that is taken back from a hung worker, and cancelled before the worker lets it go."""

import asyncio
import math
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.errors import EngineUnavailable
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.protocol.backend import Capabilities, GenerateRequest, MessagePrompt
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendEvent, End, Ledger, StepDone
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.fleet.fleet_backend import FleetBackend
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.limits import RemoteLimits
from agentrt.scheduler import Order, policy
from tests.remote.fleet.fleet_servers import TIMES

REQUEST = RequestId(1)


class HeldServer:
    """A server that holds each request until it is cancelled, and may hang.

    Attributes:
        taken: Requests that it was sent.
        cancelled: Set once one is cancelled; its end is reported by `let_go`.
    """

    capabilities = Capabilities("remote", "m", "messages")
    server = SimpleNamespace(model="m", family="vllm")

    def __init__(self, came: "asyncio.Queue[HeldServer]") -> None:
        self._came = came
        self.heard_at_s = -math.inf
        self.is_hung = False
        self.taken: list[RequestId] = []
        self.cancelled = anyio.Event()
        self._queue = EventQueue()

    async def start(self) -> None:
        pass

    async def listed_models(self) -> tuple[str, ...]:
        return ("m",)

    async def check_life(self) -> None:
        if self.is_hung:
            raise EngineUnavailable("it hangs")
        self.heard_at_s = anyio.current_time()

    def submit(self, request: GenerateRequest) -> None:
        self.taken.append(request.request_id)
        self._came.put_nowait(self)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self.cancelled.set()

    def let_go(self, request_id: RequestId) -> None:
        """Report that a request was cancelled."""
        ledger = Ledger(0.0, 0.0, source="inferred")
        self._queue.put(StepDone(None, (), (End(request_id, "cancelled", ledger),)))

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        self._queue.close()


def fleet_on(servers: list[Any]) -> FleetBackend:
    """A fleet of such servers."""
    workers = [
        FleetWorker(f"http://w{number}", 1.0, one, one, RequestPacer(), "m")
        for number, one in enumerate(servers)
    ]
    limits = RemoteLimits(pause_s=0.0)
    return FleetBackend(
        "f", workers, Order(policy("rwa")), clock=MonotonicClock(), limits=limits, times=TIMES
    )


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_request_that_was_cancelled_goes_to_no_other_worker(portal, is_cancelled):
    async def main():
        came: asyncio.Queue[HeldServer] = asyncio.Queue()
        servers = [HeldServer(came), HeldServer(came)]
        fleet = fleet_on(servers)
        await fleet.start()
        run, node, prompt = RunId("r"), NodeId("n"), MessagePrompt(())
        fleet.submit(GenerateRequest(REQUEST, run, node, "", prompt, SamplingParams(max_tokens=1)))
        hung = await came.get()
        hung.is_hung = True
        await hung.cancelled.wait()
        if is_cancelled:
            fleet.cancel(REQUEST, "by its program")
        hung.let_go(REQUEST)
        moved = asyncio.ensure_future(came.get())
        ended = asyncio.ensure_future(anext(fleet.events()))
        await asyncio.wait((moved, ended), return_when=asyncio.FIRST_COMPLETED)
        for one in (moved, ended):
            one.cancel()
        others = sum(len(one.taken) for one in servers if one is not hung)
        await fleet.aclose()
        return others

    assert portal.call(main) == (0 if is_cancelled else 1)
