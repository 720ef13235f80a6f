"""Engines that take over what another one cannot serve: once, in order, and after a cooldown."""

import json
from contextlib import asynccontextmanager

import pytest

from agentrt import AnswerRefused, ContextOverflow, EngineUnavailable, chat, program
from agentrt.base.clock import FakeClock, MonotonicClock
from agentrt.base.engines.remote_engine_config import Fallbacks, RemoteEngineConfig
from agentrt.remote import RemoteEngines
from agentrt.runtime import Runtime
from agentrt.runtime.response_cache.cache import ResponseCache
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from tests.remote.hostile_server import DONE, content, event, head, serving

OVERFLOW = json.dumps({"error": {"message": "m", "code": "context_length_exceeded"}}).encode()
AWAY = head("503 Service Unavailable", more="Content-Length: 0\r\n")
LIMITS = {"outage_s": 0, "attempts": 1, "pause_s": 0}


def says(text):
    return head() + event(content(text)) + event(content("", "stop")) + DONE


class Answers:
    """A server that gives one answer until it is given another."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = 0

    async def __call__(self, path, body, writer):
        self.asked += 1
        writer.write(self.answer)
        await writer.drain()


@program
async def job() -> str:
    return await chat().user("Hi.").generate(max_tokens=8)


@program
async def streamed() -> str:
    text = ""
    async for piece in chat().user("Hi.").generate(max_tokens=8).stream():
        text += piece
    return text


@asynccontextmanager
async def running(first, second, reasons=("down",), clock=None, responses=None):
    """A runtime on one engine, with another one for these reasons."""
    async with serving(first) as url, serving(second) as other:
        there = RemoteEngineConfig(kind="openai", address=other, model="b", limits=LIMITS)
        fallbacks = Fallbacks(**dict.fromkeys(reasons, (there,)), cooldown_s=60.0)
        engine = RemoteEngineConfig(
            kind="openai", address=url, model="a", limits=LIMITS, fallbacks=fallbacks
        )
        remotes = RemoteEngines(clock or MonotonicClock(), {"AGENTRT_CAPABILITIES": "off"}, {})
        backend = remotes.backend(engine)
        runtime = Runtime({"default": (backend, None)}, clock=MonotonicClock(), responses=responses)
        async with runtime:
            yield runtime


FAILURES = {
    "down": (AWAY, EngineUnavailable),
    "context_overflow": (head("400 Bad Request") + OVERFLOW, ContextOverflow),
    "refusal": (head() + event(content("", "content_filter")) + DONE, AnswerRefused),
}


@pytest.mark.parametrize("reason", FAILURES)
@pytest.mark.parametrize("given", FAILURES)
def test_each_reason_has_its_own_engine(portal, reason, given):
    """An engine for one reason is not asked for another."""
    answer, error = FAILURES[given]
    first, second = Answers(answer), Answers(says("from the other"))

    async def main():
        async with running(first, second, (reason,)) as runtime:
            return await runtime.run(job)

    if reason == given:
        assert portal.call(main) == "from the other"
    else:
        with pytest.raises(error):
            portal.call(main)
    assert (first.asked, second.asked) == (1, int(reason == given))


def test_an_engine_that_was_down_is_left_alone_for_a_time(portal):
    first, second, clock = Answers(AWAY), Answers(says("other")), FakeClock(100.0)

    async def main():
        asked = []
        async with running(first, second, clock=clock) as runtime:
            for at_s in (100.0, 159.0, 161.0):
                clock.advance(at_s - clock.now_s())
                if at_s == 161.0:
                    first.answer = says("first")
                asked.append((await runtime.run(job), first.asked))
        return asked

    assert portal.call(main) == [("other", 1), ("other", 1), ("first", 2)]


def test_the_error_is_that_of_the_last_engine(portal):
    first, second = Answers(AWAY), Answers(head("500 Sick") + b"the second is sick")

    async def main():
        async with running(first, second) as runtime:
            with pytest.raises(EngineUnavailable, match="the second is sick"):
                await runtime.run(job)

    portal.call(main)
    assert (first.asked, second.asked) == (1, 1), "none is asked twice"


def test_text_that_was_read_is_not_given_twice(portal):
    """The stream breaks off behind its first text; the other engine writes the same and more."""
    first, second = Answers(head() + event(content("Hel"))), Answers(says("Hello"))

    async def main():
        async with running(first, second) as runtime:
            return await runtime.run(streamed)

    assert portal.call(main) == "Hello"
    assert (first.asked, second.asked) == (1, 1)


def test_a_runtime_opens_without_its_first_engine(portal):
    """A server whose list of models is needed, and that is not there."""
    second = Answers(says("other"))

    async def main():
        async with serving(second) as other:
            there = RemoteEngineConfig(kind="openai", address=other, model="b")
            engine = RemoteEngineConfig(
                kind="vllm", address="http://127.0.0.1:9", fallbacks=Fallbacks(down=(there,))
            )
            remotes = RemoteEngines(MonotonicClock(), {"AGENTRT_CAPABILITIES": "off"}, {})
            backend = remotes.backend(engine)
            async with Runtime({"default": (backend, None)}, clock=MonotonicClock()) as runtime:
                return await runtime.run(job)

    assert portal.call(main) == "other"


def test_answers_of_a_fallback_are_not_kept_as_those_of_the_engine(portal, tmp_path):
    """A key of the response cache names the engine."""

    @program
    async def cached() -> str:
        return await chat().user("Hi.").generate(max_tokens=8, cache=True)

    async def main():
        first, second = Answers(AWAY), Answers(says("from the other"))
        cache = ResponseCache(SqliteStore(tmp_path / "r.sqlite"), {"default": "a"})
        async with running(first, second, responses=cache, clock=clock) as runtime:
            assert await runtime.run(cached) == "from the other"
            first.answer = says("from the first")
            clock.advance(61.0)
            assert await runtime.run(cached) == "from the first"
            first.answer = AWAY
            assert await runtime.run(cached) == "from the first"
        await cache.aclose()

    clock = FakeClock()
    portal.call(main)
