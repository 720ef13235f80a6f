"""Servers that have room for less than is asked: all is answered, in the order of asking."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from agentrt import EngineUnavailable, RemoteEngineConfig, chat, fan, gather, program
from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.remote import RemoteBackend
from agentrt.remote.asked_wait import asked_wait_s
from tests.remote.hostile_server import DONE, content, event, head
from tests.remote.test_backend import outcome, request

QUICK = {"pause_s": 0.01, "outage_s": 300.0}
FAN = 400


class Crowded:
    """A server with room for so many requests; others are refused."""

    def __init__(self, room, *, refusal="429 Too Many Requests", more="", error=b"", every=0):
        self.room, self.every = room, every
        self.refusal = head(refusal, more=f"{more}Content-Length: {len(error)}\r\n") + error
        self.inside = self.most = self.refused = self.seen = 0
        self.order = []

    async def connected(self, reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            raw = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(raw.split("content-length: ")[1].split("\r\n")[0])
            body = json.loads(await reader.readexactly(size))
            said = body["messages"][-1]["content"]
            self.seen += 1
            if self.inside >= self.room or (self.every and self.seen % self.every == 0):
                self.refused += 1
                writer.write(self.refusal)
            else:
                self.inside += 1
                self.most = max(self.most, self.inside)
                self.order.append(said)
                await anyio.lowlevel.checkpoint()
                writer.write(head() + event(content(said)) + event(content("", "stop")) + DONE)
                await writer.drain()
                self.inside -= 1
            await writer.drain()
        writer.close()


@asynccontextmanager
async def crowded(server):
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, backlog=1024)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@program
async def many() -> list[str]:
    nodes = fan(lambda number: chat().user(f"number {number}").generate(max_tokens=8), range(FAN))
    return list(await gather(*nodes))


def played(portal, server, **settings):
    async def main():
        async with crowded(server) as url:
            engine = RemoteEngineConfig(
                kind="openai", address=url, model="m", limits=QUICK, **settings
            )
            async with open_runtime(engine=engine, models={}) as runtime:
                return await runtime.run(many)

    return portal.call(main)


@pytest.mark.parametrize("refusal", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_fan_of_400_is_answered_whole_and_in_order(portal, refusal):
    server = Crowded(3, refusal=refusal, more="Retry-After: 0\r\n")
    assert played(portal, server) == [f"number {number}" for number in range(FAN)]
    assert server.most <= 3
    assert sorted(server.order) == sorted(f"number {number}" for number in range(FAN))
    assert server.refused < FAN, "concurrency has adapted"


def test_one_at_a_time_keeps_the_order_of_asking(portal):
    """Every third attempt is refused: it goes first when the server has room again."""
    server = Crowded(1, every=3, more="Retry-After: 0.001\r\n")
    played(portal, server, concurrency=1)
    assert server.most == 1
    assert server.refused > 100
    assert server.order == [f"number {number}" for number in range(FAN)]


def test_concurrency_is_held(portal):
    server = Crowded(5)
    played(portal, server, concurrency=5)
    assert (server.refused, server.most) == (0, 5)


def test_an_account_without_quota_is_not_asked_again(portal):
    error = json.dumps(
        {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    )
    server = Crowded(0, error=error.encode())

    async def main():
        async with crowded(server) as url:
            engine = RemoteEngineConfig(kind="openai", address=url, model="m")
            backend = RemoteBackend(engine, clock=MonotonicClock())
            await backend.start()
            _, end = await outcome(backend, request())
            await backend.aclose()
            return end

    end = portal.call(main)
    assert (end.error.type, server.refused) == (EngineUnavailable.__name__, 1)
    assert "You exceeded your quota" in end.error.message


def test_a_wait_is_read_from_either_header():
    assert asked_wait_s({"retry-after-ms": "250", "retry-after": "9"}, 0.0) == 0.25
    assert asked_wait_s({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0) == 40.0
    assert asked_wait_s({"retry-after-ms": "soon", "retry-after": "2"}, 0.0) == 2.0
    assert asked_wait_s({"retry-after-ms": "nan"}, 0.0) == 0.0
    assert asked_wait_s({}, 0.0) == 0.0
