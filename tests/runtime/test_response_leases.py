"""Leases of the response cache: an answer that another process computes is waited for."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from agentrt import DeadlineExceeded, NodeCancelled, program
from agentrt.runtime.in_flight.cached_answer import CachedAnswer, answer_bytes
from agentrt.runtime.response_cache.cache import LEASE_S, LookedUp, ResponseCache
from agentrt.runtime.response_cache.location import response_store
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from agentrt.runtime.response_cache.store import Found
from tests.runtime import caching_process
from tests.runtime.cached_runs import ANSWER, ASK, Cached, ask
from tests.runtime.redis_server import free_port, redis_server


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path / "responses.sqlite")


def test_a_waiting_process_gets_the_answer_of_another_one(cached: Cached) -> None:
    """The other one holds the lease, and answers while this one looks again."""
    other = SqliteStore(cached.path)

    class Watched(SqliteStore):
        looks = 0

        def find(self, key: str, holder: str, lease_s: float) -> Any:
            self.looks += 1
            if self.looks == 1:
                other.find(key, "other process", 60.0)
            if self.looks == 3:
                other.put(key, answer_bytes(CachedAnswer("theirs")), "other process")
            return super().find(key, holder, lease_s)

    assert cached.run(ask, store=Watched(cached.path)) == "theirs"
    assert cached.requests == []
    other.close()


def test_a_process_that_has_crashed_is_not_waited_for_longer_than_its_lease(
    cached: Cached,
) -> None:
    other = SqliteStore(cached.path)

    class Watched(SqliteStore):
        looks = 0

        def find(self, key: str, holder: str, lease_s: float) -> Any:
            self.looks += 1
            if self.looks == 1:
                other.find(key, "crashed", 60.0)
            if self.looks == 3:
                other.renew([key], "crashed", -1.0)  # its time is over
            return super().find(key, holder, lease_s)

    assert cached.run(ask, store=Watched(cached.path)) == ANSWER
    assert len(cached.requests) == 1
    other.close()


def test_a_node_ends_at_its_deadline_while_another_process_computes(cached: Cached) -> None:
    other = SqliteStore(cached.path)

    class Held(SqliteStore):
        def find(self, key: str, holder: str, lease_s: float) -> Any:
            other.find(key, "other process", 1e6)
            return super().find(key, holder, lease_s)

    @program
    async def hurried() -> str:
        return await ASK.generate(cache=True, deadline=3.0)

    with pytest.raises(DeadlineExceeded):
        cached.run(hurried, store=Held(cached.path))
    other.close()


def test_a_node_that_is_stopped_as_its_look_up_ends_ends(cached: Cached) -> None:
    """The look-up cannot be cancelled any more, and what comes after it must not be awaited."""

    class Stopped(ResponseCache):
        async def find(self, key: str) -> LookedUp:
            found = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(self.answer, found)
            await asyncio.shield(found)
            return LookedUp(is_off=True)

        def answer(self, found: asyncio.Future[None]) -> None:
            found.set_result(None)
            gens[0].cancel("not needed")

    gens: list[Any] = []

    @program
    async def stopped() -> str:
        gens.append(ASK.generate(cache=True))
        try:
            return str(await gens[0])
        except NodeCancelled:
            return "cancelled"

    store = SqliteStore(cached.path)
    assert cached.run(stopped, cache=Stopped(store, {"default": "engine"})) == "cancelled"


def test_the_next_node_keeps_the_lease_of_one_that_was_cancelled(cached: Cached) -> None:
    """Else another process would compute the same answer beside it."""
    gate, calls = threading.Event(), list[str]()

    class Slow(SqliteStore):
        def find(self, key: str, holder: str, lease_s: float) -> Any:
            gate.wait()
            calls.append("find")
            return super().find(key, holder, lease_s)

        def release(self, key: str, holder: str) -> None:
            calls.append("release")
            super().release(key, holder)

    @program
    async def two() -> str:
        first, second = ASK.generate(cache=True), ASK.generate(cache=True)
        await anyio.lowlevel.checkpoint()
        first.cancel("not needed")
        with pytest.raises(NodeCancelled):
            await first
        gate.set()
        return await second

    assert cached.run(two, store=Slow(cached.path)) == ANSWER
    assert calls == ["find", "find"]


def test_a_long_generation_renews_its_lease(cached: Cached) -> None:
    renewed: list[int] = []

    class Watched(SqliteStore):
        def renew(self, keys: Any, holder: str, lease_s: float) -> None:
            renewed.append(len(keys))
            super().renew(keys, holder, lease_s)

    speed = len(ANSWER) / 22.0  # tokens a second: 22 seconds, a lease is renewed every five
    cached.run(ask, store=Watched(cached.path), decode_tokens_per_s=speed)
    assert renewed == [1] * 4


@contextmanager
def process(*args: str) -> Iterator[Any]:
    """A process of `caching_process`, which is ended with the block."""
    command = [sys.executable, caching_process.__file__, *args]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as one:
        try:
            yield one
        finally:
            one.kill()


def test_two_processes_compute_an_answer_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        path = str(tmp_path / "r.sqlite")
        pair = [stack.enter_context(process(path)) for _ in range(2)]
        assert [one.stdout.readline() for one in pair] == ["ready\n"] * 2
        for one in pair:
            one.stdin.write("go\n")
            one.stdin.flush()
        told = [one.stdout.readline().rsplit(" ", 1) for one in pair]
    assert [text for text, _ in told] == ["it scatters"] * 2
    assert sorted(int(asked) for _, asked in told) == [0, 1]


def test_the_lease_of_a_process_that_was_killed_ends(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with process(str(path), "crash") as one:
        assert one.stdout.readline() == f"{Found(is_leased=True)}\n"
    now, later = SqliteStore(path), SqliteStore(path, unix_s=lambda: time.time() + LEASE_S)
    assert now.find("k", "next", 1.0) == Found()
    assert later.find("k", "next", 1.0) == Found(is_leased=True)
    now.close()
    later.close()


def test_runs_share_answers_by_a_redis_server(cached: Cached, tmp_path: Path) -> None:
    with redis_server(free_port(), tmp_path) as url:
        for sent in (1, 0):
            store = response_store(url, {})
            assert cached.run(ask, store=store) == ANSWER
            assert len(cached.requests) == sent
    assert cached.run(ask, store=response_store(url, {})) == ANSWER, "the server is gone"
