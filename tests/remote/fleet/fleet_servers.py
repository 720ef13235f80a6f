"""Servers of a fleet whose answers a test holds back, breaks off, or lets go."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from agentrt import RemoteEngineConfig
from agentrt.base.clock import MonotonicClock
from agentrt.remote import RemoteEngines
from agentrt.remote.fleet.fleet_times import FleetTimes
from agentrt.runtime import Runtime
from tests.remote.hostile_server import DONE, content, event, head, serving

TIMES = FleetTimes(
    quiet_s=0.1, answer_s=1.0, first_pause_s=0.01, most_pause_s=0.02, join_s=0.05, tick_s=0.02
)


class FleetServer:
    """Answers each request with its own text, as its `mode` has it.

    Attributes:
        mode: "says" answers; "waits" holds answers back until `gate` is set; "cuts" breaks off
            behind the first half; "away" answers 503; "busy" answers 429; "silent" sends nothing,
            not even to its health check.
        models: Names of the models that it lists; None has no list.
        lists: Number of times that the list was read.
        asked: Texts of the requests that came, in order.
    """

    def __init__(self, mode: str = "says") -> None:
        self.mode = mode
        self.models: list[str] | None = ["m"]
        self.lists = 0
        self.gate = asyncio.Event()
        self.asked: list[str] = []
        self.keys: list[str] = []
        self.came = asyncio.Event()

    async def until_asked(self, count: int) -> None:
        """Wait until so many requests have come."""
        while len(self.asked) < count:
            self.came.clear()
            await self.came.wait()

    async def __call__(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if self.mode == "silent":
            await asyncio.Event().wait()
        if self.mode == "away":
            writer.write(head("503 Service Unavailable", more="Content-Length: 0\r\n"))
            return
        if not path.endswith("/chat/completions"):
            self.lists += path.endswith("/v1/models")
            if self.models is None and path.endswith("/v1/models"):
                writer.write(head("404 Not Found", more="Content-Length: 0\r\n"))
                return
            window = {"owned_by": "vllm", "max_model_len": 4096}
            entries = [{"id": one, **window} for one in self.models or ()]
            listed = json.dumps({"data": entries}).encode()
            writer.write(head(kind="application/json") + listed)
            return
        said = json.loads(body)["messages"][-1]["content"]
        self.asked.append(said)
        self.came.set()
        if self.mode == "busy":
            writer.write(head("429 Busy", more="Content-Length: 0\r\n"))
            return
        half = len(said) // 2
        writer.write(head() + event(content(said[:half])))
        await writer.drain()
        if self.mode == "cuts":
            return
        if self.mode == "waits":
            await self.gate.wait()
        writer.write(event(content(said[half:])) + event(content("", "stop")) + DONE)
        await writer.drain()


@asynccontextmanager
async def fleet_of(
    servers: Sequence[FleetServer], observers: Sequence[Any] = (), **settings: Any
) -> AsyncIterator[Runtime]:
    """A runtime on a fleet of these servers."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(one, doors=True)) for one in servers]
        given = {"kind": "vllm", "model": "m", **settings}
        engine = RemoteEngineConfig(addresses=tuple(urls), **given)
        yield await stack.enter_async_context(runtime_on(engine, observers))


@asynccontextmanager
async def runtime_on(
    engine: RemoteEngineConfig, observers: Sequence[Any] = ()
) -> AsyncIterator[Runtime]:
    """A runtime on an engine, with the times of tests."""
    clock = MonotonicClock()
    remotes = RemoteEngines(clock, {"AGENTRT_CAPABILITIES": "off"}, {}, "rwa", TIMES)
    backend = remotes.backend(engine)
    async with Runtime({"default": (backend, None)}, clock=clock, observers=observers) as runtime:
        yield runtime
