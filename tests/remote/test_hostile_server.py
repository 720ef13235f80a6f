"""Whatever a server answers, the request ends with text or with a typed error of that server."""

import copy
import json
import random
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.app import open_runtime
from agentrt.base.clock import FakeClock, MonotonicClock
from agentrt.base.config import RunConfig
from agentrt.base.errors import AgentrtError, BackendError, DeadlineExceeded
from agentrt.remote import RemoteBackend, RemoteLimits
from agentrt.remote.answers.sse import EventStream, EventTooLong
from agentrt.remote.answers.usage import RequestTimes, ledger
from agentrt.remote.asked_wait import retry_after_s
from agentrt.remote.protocols.answer_shape import Malformed, parsed_object
from agentrt.remote.retries import Retries
from tests.remote.event_reading import EventReading
from tests.remote.hostile_server import MODELS, WHOLE, Script, content, event, head, serving
from tests.remote.test_backend import outcome, request

SMALL = RemoteLimits(event_bytes=20_000, answer_bytes=60_000, attempts=3, outage_s=0.0, pause_s=0.0)
CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}
VALID = [
    content("Hello"),
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "x"}]},
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
        "timings": {"prompt_ms": 1.5, "predicted_ms": 2.5, "cache_n": 1},
        "metrics": {"time_to_first_token_ms": 1.0, "generation_time_ms": 2.0},
    },
    {"error": {"message": "no", "code": 500}},
]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *("x", "", 0, -1, 1.5, 10**400, 1e308, float("inf"), float("nan"), True, None, "\ud800"),
        *([], {}, [[]], ["x"], [None], {"a": 1}, {"message": []}, [{"delta": "x"}], {"content": 3}),
    ]
).map(copy.deepcopy)


@st.composite
def mutated(draw):
    """A valid event with some of its parts replaced, at any depth."""
    whole = [copy.deepcopy(draw(st.sampled_from(VALID)))]
    for _ in range(draw(st.integers(1, 3))):
        place, key = whole, 0
        while isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
        place[key] = draw(ODD)
    return whole[0]


@settings(max_examples=600, derandomize=True, deadline=None)
@given(st.lists(mutated(), max_size=4))
def test_a_mutated_event_is_read_or_refused(events):
    reader = EventReading()
    try:
        for one in events:
            text = reader.feed_event(parsed_object(json.dumps(one)))
            text.encode()
    except (Malformed, AgentrtError):
        return
    reader.close().encode()
    reader.stopped_by.encode("utf-8", "replace")
    counted = ledger(reader, RequestTimes(1.0, 2.0), 3.0)
    assert counted.prompt_tokens >= 0
    assert counted.finished_at_s == 3.0


@asynccontextmanager
async def opened(script, limits=SMALL, clock=None):
    async with serving(script) as url:
        backend = RemoteBackend(url, clock=clock or MonotonicClock(), limits=limits)
        try:
            await backend.start()
            script.opened = True
            yield backend, url
        finally:
            await backend.aclose()


def ended(portal, script, one=None, **options):
    """Text, end and address."""

    async def main():
        async with opened(script, **options) as (backend, url):
            text, end = await outcome(backend, one or request())
            return text, end, url

    return portal.call(main)


MALFORMED = {
    "choices are a text": event({"choices": "x"}),
    "a choice is a text": event({"choices": ["x"]}),
    "a delta is a list": event({"choices": [{"delta": [1]}]}),
    "content is a number": event({"choices": [{"delta": {"content": 3}}]}),
    "calls are a number": event({"choices": [{"delta": {"tool_calls": 7}}]}),
    "a function is a text": event({"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]}),
    "a reason is a list": event({"choices": [{"delta": {}, "finish_reason": []}]}),
    "usage is a text": event({"choices": [], "usage": "x"}),
    "a count is infinite": b'data: {"usage": {"prompt_tokens": 1e999}}\n\n',
    "a time is no number": event({"timings": {"prompt_ms": "x", "predicted_ms": 1}}),
    "not a number": b'data: {"timings": {"prompt_ms": NaN}}\n\n',
    "no object": event([1]),
    "no JSON": b"data: {{{\n\n",
    "nested": b"data: " + b"[" * 15_000 + b"\n\n",
    "nested arguments": b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":'
    + b'{"a":' * 3_000
    + b"1"
    + b"}" * 3_000
    + b"}}]}}]}\n\n",
    "a line without end": b"data: " + b"x" * 50_000,
    "lines without end": b"data: x\n" * 9_000,
    "an answer without end": event(content("")) * 3_000,
}


@pytest.mark.parametrize("stream", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_an_error_of_its_server(portal, stream):
    script = Script([head() + stream])
    _, end, url = ended(portal, script)
    assert (end.reason, end.error.type) == ("failed", "RequestRejected")
    assert url in end.error.message
    assert script.asked == 1


@pytest.mark.parametrize(
    "answer",
    [
        head("500 Internal Server Error") + b"{}",
        head("502 Bad Gateway"),
        head("503 Service Unavailable"),
        head("429 Too Many Requests"),
        head(),
        head() + b"data: {",
        head() + event({"choices": [{"delta": {"role": "assistant"}}]}),
        head(more="Content-Length: 5000\r\n") + event(content("")),
        b"",
    ],
    ids=["500", "502", "503", "429", "empty", "half an event", "a role", "cut", "closed"],
)
def test_it_is_tried_again_before_the_first_text(portal, answer):
    script = Script([answer, answer, head() + WHOLE])
    text, end, _ = ended(portal, script)
    assert (text, end.reason, script.asked) == ("there", "stop", 3)


def test_after_the_first_text_it_is_given_back(portal):
    """The runtime knows what it has handed on: it decides, and asks again."""
    script = Script([head() + event(content("half")), head() + WHOLE])

    async def main():
        async with opened(script) as (backend, url):
            one = request()
            backend.submit(one)
            async with aclosing(backend.events()) as events:
                told = await anext(events)
                down = await anext(events)
            return told, down, url, one

    told, down, url, one = portal.call(main)
    assert [delta.text for delta in told.deltas] == ["half"]
    assert (down.lost, down.restarting, script.asked) == ((one.request_id,), True, 1)
    assert down.error.type == "EngineDied"
    assert url in down.error.message


def test_attempts_have_an_end(portal):
    script = Script([head("500 Internal Server Error", more="Content-Length: 0\r\n")])
    _, end, url = ended(portal, script)
    assert (end.error.type, script.asked) == ("EngineUnavailable", SMALL.attempts)
    assert url in end.error.message


def test_an_endless_error_is_cut(portal):
    script = Script([head("400 Bad Request") + b"x" * 1_000_000])
    _, end, _ = ended(portal, script)
    assert end.error.type == "RequestRejected"
    assert len(end.error.message) < 500


def busy(wait):
    return head("429 Too Many Requests", more=f"Retry-After: {wait}\r\n")


@pytest.mark.parametrize("wait", ["7", "1000000000", "inf", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_wait_past_the_deadline_fails_at_once(portal, wait):
    """On a clock that stands still: only the announced wait can be past the deadline."""
    script = Script([busy(wait), head() + WHOLE])
    clock = FakeClock(100.0)
    late = request()
    late = type(late)(
        **{name: getattr(late, name) for name in late.__slots__} | {"deadline_at_s": 105.0}
    )
    _, end, url = ended(portal, script, late, clock=clock)
    assert (end.error.type, script.asked) == ("EngineUnavailable", 1)
    assert url in end.error.message


@pytest.mark.parametrize(("left_s", "waits"), [(30.0, [9.0]), (None, [9.0])])
def test_a_wait_within_the_deadline_is_obeyed(portal, monkeypatch, left_s, waits):
    waited = []

    async def main():
        async def sleep(seconds):
            waited.append(seconds)

        deadline_at_s = None if left_s is None else 5.0 + left_s
        jitter = random.Random(1)
        retries = Retries("http://127.0.0.1:9", SMALL, FakeClock(5.0), jitter, deadline_at_s)
        monkeypatch.setattr(anyio, "sleep", sleep)
        await retries.pause(9.0)
        monkeypatch.undo()

    portal.call(main)
    assert [9.0 <= seconds < 10.0 for seconds in waited] == [True] * len(waits)


def test_a_wait_is_a_number_or_a_date():
    assert retry_after_s("2.5", 0.0) == 2.5
    assert retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 20.0) == 40.0
    assert [retry_after_s(odd, 0.0) for odd in ("", "soon", "-3", "nan")] == [0.0] * 4


OPENINGS = {
    "no JSON": b"<html>",
    "no object": b"[]",
    "no list": b'{"data": 3}',
    "numbers": b'{"data": [{"id": "m", "max_model_len": "x"}]}',
    "infinite": b'{"data": [{"id": "m", "max_model_len": 1e999}]}',
    "meta": b'{"data": [{"id": "m", "meta": 3}]}',
    "nested": b"[" * 15_000,
    "endless": MODELS + b" " * 50_000,
    "names": b'{"data": [{"id": 3}]}',
}


@pytest.mark.parametrize("models", OPENINGS.values(), ids=OPENINGS)
def test_a_malformed_opening_is_an_error_of_its_server(portal, models):
    async def main():
        with pytest.raises(BackendError) as raised:
            async with opened(Script([], models)):
                pass
        return raised.value

    assert "http://127.0.0.1:" in portal.call(main).message


def test_the_opening_ends_at_the_deadline(portal):
    async def main():
        async with serving(Script([], None)) as url:
            config = RunConfig(deadline_s=0.05)
            with pytest.raises(DeadlineExceeded) as raised:
                async with open_runtime(engine=url, config=config):
                    pass
            return raised.value, url

    error, url = portal.call(main)
    assert url in error.message
    assert error.exit_code == 5


def test_lines_are_limited_however_they_are_cut():
    stream = EventStream(100)
    for _ in range(100):
        stream.feed_data(b"x")
    with pytest.raises(EventTooLong):
        stream.feed_data(b"x")
    stream = EventStream(100)
    assert stream.feed_data((b"data: " + b"x" * 50 + b"\n\n") * 5) == ["x" * 50] * 5
