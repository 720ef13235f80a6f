"""A publisher of KV events as vLLM has it, but for an XPUB socket, which notes subscribers.

`vllm/distributed/kv_events.py`, `ZmqEventPublisher`: (topic, number, batch) is published; a ROUTER
answers (empty, number) by (empty, topic, number, batch) for each batch that it still has, and ends
by the number -1. SGLang's answers have no topic.
"""

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgpack
import pytest

from agentrt.base.engines.kv_events import KvEvents

zmq = pytest.importorskip("zmq", reason="ZeroMQ is not installed: pip install 'agentrt[kv-events]'")
asyncio_zmq = pytest.importorskip("zmq.asyncio")

END = (-1).to_bytes(8, "big", signed=True)


class KvPublisher:
    """A publisher on free ports of the loopback, or on given ones.

    Attributes:
        kept: Batches that it answers questions from.
        asked: Numbers from which it was asked.
    """

    def __init__(self, ports=(0, 0), *, topic=b"kv-events", replies_with_topic=True):
        self.kept: list[tuple[int, bytes]] = []
        self.asked: list[int] = []
        self._next = 0
        self._topic, self._with_topic = topic, replies_with_topic
        self._context = asyncio_zmq.Context()
        self._pub = self._context.socket(zmq.XPUB)
        self._router = self._context.socket(zmq.ROUTER)
        self.ports = tuple(
            self._bind(one, port)
            for one, port in zip((self._pub, self._router), ports, strict=True)
        )

    def _bind(self, socket: Any, port: int) -> int:
        socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        return int(socket.getsockopt(zmq.LAST_ENDPOINT).decode().rsplit(":")[-1])

    @property
    def source(self) -> KvEvents:
        endpoint, replay = (f"tcp://127.0.0.1:{port}" for port in self.ports)
        return KvEvents(endpoint, replay)

    async def subscribed(self) -> None:
        """Wait for a subscriber."""
        assert (await self._pub.recv())[:1] == b"\1"

    async def publish(self, *events, lost=False, payload=None) -> int:
        """Publish a batch; one that is lost is not sent, but kept. Returns its number."""
        number, self._next = self._next, self._next + 1
        batch = msgpack.packb([1.5, list(events), 0]) if payload is None else payload
        self.kept.append((number, batch))
        if not lost:
            await self._pub.send_multipart((self._topic, number.to_bytes(8, "big"), batch))
        return number

    async def answer(self) -> None:
        """Answer questions for batches."""
        while True:
            asker, empty, first = await self._router.recv_multipart()
            self.asked.append(int.from_bytes(first, "big"))
            head = (asker, empty, self._topic) if self._with_topic else (asker, empty)
            for number, payload in self.kept:
                if number >= self.asked[-1]:
                    await self._router.send_multipart((*head, number.to_bytes(8, "big"), payload))
            end = (asker, empty, b"") if self._with_topic else (asker, empty)
            await self._router.send_multipart((*end, END, b""))

    def close(self) -> None:
        self._context.destroy(linger=0)


@asynccontextmanager
async def publisher(*ports: int, **how: Any):
    """A publisher that answers."""
    one = KvPublisher(ports or (0, 0), **how)
    answering = asyncio.create_task(one.answer())
    try:
        yield one
    finally:
        answering.cancel()
        with suppress(asyncio.CancelledError):
            await answering
        one.close()
