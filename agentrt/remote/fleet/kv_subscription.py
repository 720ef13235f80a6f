"""The subscription to the KV events of one server: joins, catches up, and never stops a run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from agentrt.base.engines.kv_events import KvEvents
from agentrt.base.errors import NotInstalled
from agentrt.remote.fleet.kv_batch_order import BatchOrder
from agentrt.remote.fleet.kv_event_batch import MOST_PAYLOAD_BYTES, BatchReader, MalformedBatch
from agentrt.scheduler.placement.held_blocks import ClearedBlocks, KvEvent

_log = logging.getLogger("agentrt")

MOST_WAITING = 100_000
"""Batches that wait to be read at most; ZeroMQ drops those beyond, which are asked for again."""

END_NUMBER = (-1).to_bytes(8, "big", signed=True)
"""Number of the last answer to a question for batches."""


@dataclass(frozen=True, slots=True)
class SubscriptionTimes:
    """Times of a subscription, in seconds.

    Attributes:
        join_s: Time for the connection, after which a warning says that it is missing.
        answer_s: Time for the next batch that was asked for.
    """

    join_s: float = 10.0
    answer_s: float = 5.0


DEFAULT_SUBSCRIPTION_TIMES = SubscriptionTimes()


class KvSubscription:
    """The subscription to the KV events of one server.

    ZeroMQ connects again by itself. A server that was started again is known by its numbers.

    Args:
        name: Name of the server, for warnings.
        source: Where it publishes them.
        on_events: Called with the events of each batch, in their order.
        times: Times of the subscription.

    Attributes:
        batches: Number of batches that were taken.
        is_joined: Whether the server is connected.
    """

    def __init__(
        self,
        name: str,
        source: KvEvents,
        on_events: Callable[[Sequence[KvEvent]], None],
        times: SubscriptionTimes = DEFAULT_SUBSCRIPTION_TIMES,
    ) -> None:
        self._name = name
        self._source = source
        self._on_events = on_events
        self._times = times
        self._order = BatchOrder()
        self._reader = BatchReader()
        self._told: set[str] = set()
        self.batches = 0
        self.is_joined = False

    async def run(self) -> None:
        """Follow the events until cancelled; an error ends the subscription with a warning."""
        zmq = imported_zmq()
        context: Any = zmq.asyncio.Context()
        try:
            subscriber = context.socket(zmq.SUB)
            subscriber.set_hwm(MOST_WAITING)
            subscriber.setsockopt(zmq.MAXMSGSIZE, MOST_PAYLOAD_BYTES)
            subscriber.subscribe(self._source.topic)
            monitor = subscriber.get_monitor_socket()
            subscriber.connect(self._source.endpoint)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_connection, monitor)
                await self._catch_up(context)
                while True:
                    frames = await subscriber.recv_multipart()
                    await self._take_published(context, frames)
        except* zmq.ZMQError as errors:
            self._warn("end", f"are no longer followed: {errors.exceptions[0]}")
        finally:
            context.destroy(linger=0)

    async def _watch_connection(self, monitor: Any) -> None:
        """Note whether the server is connected; say once if it is not in time."""
        with anyio.move_on_after(self._times.join_s):
            await self._note_connection(monitor)
        if not self.is_joined:
            self._warn("join", f"do not come: nothing publishes at {self._source.endpoint}")
        while True:
            await self._note_connection(monitor)

    async def _note_connection(self, monitor: Any) -> None:
        """Wait until the state of the connection is another one."""
        zmq, before = imported_zmq(), self.is_joined
        while self.is_joined is before:
            event = (await zmq.utils.monitor.recv_monitor_message(monitor))["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_joined = True
            elif event == zmq.EVENT_DISCONNECTED:
                self.is_joined = False

    async def _take_published(self, context: Any, frames: Sequence[bytes]) -> None:
        """Take a batch that came, and before it those that are missing."""
        if len(frames) != 3 or len(frames[1]) != 8:
            self._warn("form", "have another form: (topic, number, batch) was expected")
            return
        number, payload = int.from_bytes(frames[1], "big", signed=True), frames[2]
        place = self._order.place(number)
        if place == "restarted":
            self._take([ClearedBlocks()])
            place = "gap" if number else "next"
        if place == "gap":
            was_following = self._order.taken_to >= 0
            await self._catch_up(context)
            if was_following and self._order.taken_to + 1 < number:
                self._warn("lost", "have a gap that cannot be filled")
            place = "repeated" if self._order.taken_to >= number else "next"
        if place == "next":
            self._take_payload(number, payload)

    async def _catch_up(self, context: Any) -> None:
        """Ask for the batches behind the last one that was taken."""
        if not self._source.replay:
            return
        async for number, payload in self._asked(context, max(0, self._order.taken_to)):
            place = self._order.place_replayed(number, payload)
            if place == "restarted":
                self._order.restart()
                self._take([ClearedBlocks()])
                await self._catch_up(context)
                return
            if place == "next":
                self._take_payload(number, payload)

    async def _asked(self, context: Any, first: int) -> AsyncIterator[tuple[int, bytes]]:
        """The batches from a number on that the server still has."""
        zmq = imported_zmq()
        dealer = context.socket(zmq.DEALER)
        try:
            dealer.setsockopt(zmq.MAXMSGSIZE, MOST_PAYLOAD_BYTES)
            dealer.connect(self._source.replay)
            await dealer.send_multipart((b"", first.to_bytes(8, "big")))
            while True:
                frames: list[bytes] = []
                with anyio.move_on_after(self._times.answer_s):
                    frames = await dealer.recv_multipart()
                if len(frames) < 3:
                    self._warn("replay", f"cannot be asked for: no answer at {self._source.replay}")
                    return
                # SGLang sends (empty, number, batch), vLLM a topic between the first two.
                if frames[-2] == END_NUMBER:
                    return
                yield int.from_bytes(frames[-2], "big", signed=True), frames[-1]
                await anyio.lowlevel.checkpoint()
        finally:
            dealer.close(linger=0)

    def _take_payload(self, number: int, payload: bytes) -> None:
        self._order.take(number, payload)
        self.batches += 1
        try:
            self._take(self._reader.read(payload))
        except MalformedBatch as error:
            self._warn("form", f"cannot be read: {error}")

    def _take(self, events: Sequence[KvEvent]) -> None:
        if events:
            self._on_events(events)

    def _warn(self, what: str, words: str) -> None:
        """Say something about the events once."""
        if what not in self._told:
            self._told.add(what)
            _log.warning(
                "KV events of %s %s; placement goes on with what it knows", self._name, words
            )


def imported_zmq() -> Any:
    """ZeroMQ's module, imported where events are asked for alone.

    Raises:
        NotInstalled: ZeroMQ is not installed.
    """
    try:
        import zmq
        import zmq.asyncio
        import zmq.utils.monitor
    except ModuleNotFoundError:
        raise NotInstalled(
            "kv_events needs ZeroMQ", hint="pip install 'agentrt[kv-events]'"
        ) from None
    return zmq
