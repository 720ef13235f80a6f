"""KV events over real ZeroMQ sockets: in order, all of them, and never an error of a run."""

import asyncio
import logging
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from agentrt.base.engines.kv_events import KvEvents
from agentrt.scheduler.placement.held_blocks import ClearedBlocks, RemovedBlocks

pytest.importorskip("zmq", reason="ZeroMQ is not installed: pip install 'agentrt[kv-events]'")

from agentrt.remote.fleet.kv_subscription import KvSubscription, SubscriptionTimes
from tests.remote.fleet.kv_publisher import publisher

TIMES = SubscriptionTimes(join_s=10.0, answer_s=10.0)


def gone(*names):
    return ["BlockRemoved", list(names)]


class Said(logging.Handler):
    """Notes that something was said twice."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.twice = anyio.Event()

    def emit(self, record):
        self.count += 1
        if self.count == 2:
            self.twice.set()


class Following:
    """A subscription with the names of removed blocks in the order in which they came."""

    def __init__(self, source, times=TIMES):
        self.names: list[object] = []
        self.came = anyio.Event()
        self.subscription = KvSubscription("http://a/v1", source, self._note, times)

    def _note(self, events):
        for one in events:
            if isinstance(one, RemovedBlocks):
                self.names += one.hashes
            elif isinstance(one, ClearedBlocks):
                self.names.append("cleared")
        self.came.set()

    async def until(self, *names):
        while len(self.names) < len(names):
            self.came = anyio.Event()
            await self.came.wait()
        assert self.names == list(names)


@asynccontextmanager
async def following(source, times=TIMES):
    one = Following(source, times)
    task = asyncio.create_task(one.subscription.run())
    try:
        with anyio.fail_after(30):
            yield one
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_batches_come_in_order(portal, caplog):
    async def main():
        async with publisher() as server, following(server.source) as events:
            await server.subscribed()
            await server.publish(gone(1), gone(2, 3))
            await server.publish(["AllBlocksCleared"], gone(4))
            await events.until(1, 2, 3, "cleared", 4)
            assert events.subscription.is_joined
            assert events.subscription.batches == 2

    portal.call(main)
    assert not caplog.records


@pytest.mark.parametrize("with_topic", [True, False], ids=["vLLM", "SGLang"])
def test_what_was_published_before_is_asked_for(portal, with_topic):
    async def main():
        async with publisher(replies_with_topic=with_topic) as server:
            for number in range(3):
                await server.publish(gone(number))
            async with following(server.source) as events:
                await events.until(0, 1, 2)
                await server.publish(gone(3))
                await events.until(0, 1, 2, 3)
            assert server.asked == [0]

    portal.call(main)


def test_a_gap_is_filled(portal, caplog):
    """The batch behind the gap comes once, though it is among the answers, too."""

    async def main():
        async with publisher() as server, following(server.source) as events:
            await server.subscribed()
            await server.publish(gone(0))
            await events.until(0)
            await server.publish(gone(1), lost=True)
            await server.publish(gone(2), lost=True)
            await server.publish(gone(3))
            await server.publish(gone(4))
            await events.until(0, 1, 2, 3, 4)
            assert server.asked == [0, 0]

    portal.call(main)
    assert not caplog.records


@pytest.mark.parametrize("can_be_asked", [True, False])
def test_a_gap_that_cannot_be_filled_is_said_once(portal, caplog, can_be_asked):
    async def main():
        async with publisher() as server:
            source = server.source if can_be_asked else KvEvents(server.source.endpoint)
            async with following(source) as events:
                await server.subscribed()
                for number in range(6):
                    await server.publish(gone(number), lost=number in (1, 3))
                    server.kept.clear()
                    if number not in (1, 3):
                        await events.until(*[n for n in range(number + 1) if n not in (1, 3)])

    portal.call(main)
    assert [one.message for one in caplog.records] == [
        "KV events of http://a/v1 have a gap that cannot be filled; "
        "placement goes on with what it knows"
    ]


@pytest.mark.parametrize("before", [3, 1], ids=["numbers begin anew", "numbers have passed"])
def test_a_server_that_is_started_again_holds_nothing(portal, before):
    async def main():
        async with publisher() as old, following(old.source) as events:
            await old.subscribed()
            for number in range(before):
                await old.publish(gone(number))
            known = tuple(range(before))
            await events.until(*known)
            ports = old.ports
            old.close()
            async with publisher(*ports) as new:
                await new.publish(gone(100), lost=True)
                await new.publish(gone(101), lost=True)
                await new.subscribed()
                await new.publish(gone(102))
                await events.until(*known, "cleared", 100, 101, 102)

    portal.call(main)


def test_a_server_that_publishes_nothing_is_said_once(portal, caplog):
    async def main():
        async with publisher() as server:
            source = server.source
        times = SubscriptionTimes(join_s=0.01, answer_s=0.01)
        said = Said()
        logging.getLogger("agentrt").addHandler(said)
        async with following(source, times) as events:
            await said.twice.wait()
            assert not events.subscription.is_joined
            async with publisher(*server.ports) as late:
                await late.subscribed()
                await late.publish(gone(1))
                await events.until(1)
            assert events.subscription.is_joined
        logging.getLogger("agentrt").removeHandler(said)

    portal.call(main)
    said = sorted(one.message for one in caplog.records)
    assert "cannot be asked for: no answer at tcp://127.0.0.1:" in said[0]
    assert "do not come: nothing publishes at tcp://127.0.0.1:" in said[1]


def test_what_cannot_be_read_is_said_once_and_passed(portal, caplog):
    async def main():
        async with publisher() as server, following(server.source) as events:
            await server.subscribed()
            await server.publish(payload=b"\xc1")
            await server.publish(payload=b"\x93")
            await server.publish(gone(7))
            await events.until(7)

    portal.call(main)
    assert len(caplog.records) == 1
    assert "KV events of http://a/v1 cannot be read" in caplog.text
