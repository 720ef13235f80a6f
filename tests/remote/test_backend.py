"""The remote backend against a real server in another process, good days and bad."""

import asyncio
import itertools
import json
import socket
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.engines import RemoteEngineConfig
from agentrt.base.errors import AgentrtError, EngineUnavailable, UsageError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text, ToolSchema
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.protocol.step_output import BackendDown
from agentrt.remote import RemoteBackend, RemoteLimits
from agentrt.remote.http import Http

PATIENCE_S = 300  # a hang ends the test; nothing is measured
KEY = "sk-let-me-in"
RUN = RunId("00000000000000ab")
NUMBERS = itertools.count(1)
TWICE = RemoteLimits(attempts=2, pause_s=0.0, outage_s=0.0)


def request(text="Say something.", *, constraint=None, tools=(), **sampling):
    number = next(NUMBERS)
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RUN,
        node_id=NodeId(f"node{number}"),
        site="",
        prompt=MessagePrompt((Open("user"), Text(text), Close()), tools),
        sampling=SamplingParams(**{"max_tokens": 8, "temperature": 1.0} | sampling),
        constraint=constraint,
    )


@asynccontextmanager
async def connected(url, model="tiny", key=None, **options):
    engine = RemoteEngineConfig(address=url, model=model or "", key=key)
    backend = RemoteBackend(engine, clock=MonotonicClock(), **options)
    try:
        await backend.start()
        yield backend
    finally:
        await backend.aclose()


async def outcome(backend, one, on_text=None):
    """Its text and its end; a lost request is submitted again, as the runtime does."""
    text = ""
    backend.submit(one)
    with anyio.fail_after(PATIENCE_S):
        async with aclosing(backend.events()) as events:
            async for event in events:
                if isinstance(event, BackendDown):
                    text = ""
                    backend.submit(one)
                    continue
                for delta in event.deltas:
                    text += delta.text
                    if on_text is not None:
                        on_text()
                if event.ends:
                    return text, event.ends[0]
    raise AssertionError("the events ended")


def played(portal, url, one, model="tiny", **options):
    async def main():
        async with connected(url, model, **options) as backend:
            return await outcome(backend, one)

    return portal.call(main)


def refused(portal, url, model=None, **options):
    """The error of a start that fails."""

    async def main():
        with pytest.raises(AgentrtError) as raised:
            async with connected(url, model, **options):
                pass
        return raised.value

    return portal.call(main)


async def seen(url):
    http = Http(url)
    try:
        return await http.get("/seen")
    finally:
        await http.aclose()


def test_what_the_server_tells_of_tokens_and_time_is_kept(portal, server_url):
    long = request("one two three four five six seven eight nine ten eleven twelve " * 3)

    async def main():
        async with connected(server_url) as backend:
            await outcome(backend, long)
            return await outcome(backend, request(long.prompt.segments[1].text))

    text, end = portal.call(main)
    ledger = end.ledger
    assert text
    assert (end.reason, ledger.source, ledger.output_tokens) == ("length", "engine_reported", 8)
    assert 16 <= ledger.cached_tokens < ledger.prompt_tokens
    assert ledger.prefill_s > 0


def test_the_span_of_the_node_goes_along(portal, server_url):
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    played(portal, server_url, replace(request("find this one"), traceparent=given))
    played(portal, server_url, request("and this one"))
    requests = portal.call(seen, server_url)["requests"]
    headers = {
        one["body"]["messages"][0]["content"]: one["headers"].get("traceparent")
        for one in requests
        if one["body"].get("messages")
    }
    assert headers["find this one"] == given
    assert headers["and this one"] is None


PAINT = ToolSchema(
    "paint",
    "Paints a wall.",
    {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)


def test_several_calls_arrive_in_the_frame(portal, server_url):
    spec = ConstraintSpec("calls", tools=(PAINT,), max_calls=2)
    text, end = played(
        portal, server_url, request(constraint=spec, tools=(PAINT,), max_tokens=400, seed=3)
    )
    calls = json.loads(text)
    assert end.reason == "stop"
    assert 1 <= len(calls) <= 2
    assert {call["name"] for call in calls} == {"paint"}
    assert {call["arguments"]["colour"] for call in calls} <= {"red", "blue"}


def test_calls_or_an_answer_are_held_by_a_schema(portal, server_url):
    """Neither `tools` nor `tool_choice` can say that; the schema can, and is enforced."""
    answer = '{"type":"object","properties":{"n":{"type":"boolean"}},"required":["n"],'
    answer += '"additionalProperties":false}'
    spec = ConstraintSpec("calls", answer, tools=(PAINT,), max_calls=2)
    for seed in range(4):
        one = request(constraint=spec, tools=(PAINT,), max_tokens=400, seed=seed)
        text, end = played(portal, server_url, one)
        value = json.loads(text)
        assert end.reason == "stop"
        if isinstance(value, list):
            assert {call["name"] for call in value} == {"paint"}
        else:
            assert isinstance(value["n"], bool)


def test_cancelling_ends_it_on_the_server_too(portal, server_url):
    async def main():
        before = len((await seen(server_url))["cancelled"])
        async with connected(server_url) as backend:
            one = request(max_tokens=3000)
            end = await outcome(backend, one, lambda: backend.cancel(one.request_id, "enough"))
            with anyio.fail_after(PATIENCE_S):
                while len((await seen(server_url))["cancelled"]) == before:
                    await anyio.lowlevel.checkpoint()
            return end

    text, end = portal.call(main)
    assert text
    assert end.reason == "cancelled"
    assert 0 < end.ledger.output_tokens < 3000


def test_a_stream_that_is_cut_is_an_engine_that_died(portal, server_url):
    text, end = played(portal, server_url, request(max_tokens=300), "tiny-cut", limits=TWICE)
    assert text
    assert (end.reason, end.error.type) == ("failed", "EngineDied")
    assert server_url in end.error.message
    assert end.error.hint


def test_an_error_in_the_stream_fails_the_request(portal, server_url):
    _, end = played(portal, server_url, request(max_tokens=300), "tiny-sick", limits=TWICE)
    assert end.error.type == "EngineDied"
    assert "the GPU fell over" in end.error.message


def test_a_busy_server_is_asked_again(portal, server_url):
    _, end = played(portal, server_url, request("busy?"), "tiny-busy")
    assert end.reason == "length"
    requests = portal.call(seen, server_url)["requests"]
    asked = [
        one
        for one in requests
        if one["body"].get("messages", [{"content": ""}])[0]["content"] == "busy?"
    ]
    assert len(asked) == 2


def test_a_connection_lost_before_the_first_byte_is_made_again(portal, server_url):
    """A door that shuts each time the first of two connections comes."""
    port = int(server_url.rpartition(":")[2])
    opened = 0
    doors = []

    async def door(reader, writer):
        nonlocal opened
        opened += 1
        here = asyncio.current_task()
        assert here is not None
        doors.append(here)
        if opened % 2:
            await shut(writer)
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async def pump(source, sink):
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                sink.write(data)
        await shut(sink)

    async def shut(sink):
        sink.close()
        with suppress(ConnectionError):
            await sink.wait_closed()

    async def main():
        async with await asyncio.start_server(door, "127.0.0.1", 0) as listener:
            here = listener.sockets[0].getsockname()[1]
            async with connected(f"http://127.0.0.1:{here}") as backend:
                result = await outcome(backend, request())
            listener.close()
            await asyncio.wait(doors)  # what they hold open would be complained of later
            return result

    _, end = portal.call(main)
    assert end.reason == "length"
    assert opened >= 2


def test_nobody_there_is_told_in_one_line(portal):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    error = refused(portal, url)
    assert isinstance(error, EngineUnavailable)
    assert f"no engine answers at {url}" in error.message
    assert error.hint


STARTS = [
    ("no such path", "{url}/elsewhere", None, {}, "EngineUnavailable", "404"),
    ("no API at all", "{url}/seen", None, {}, "EngineUnavailable", "404"),
    ("several models", "{url}", None, {}, "UsageError", "several models"),
    ("unknown model", "{url}", "gpt-9", {}, "UsageError", "does not serve 'gpt-9'"),
    ("no key", "{url}", "tiny-locked", {}, "EngineUnavailable", "401"),
    ("not a URL", "localhost:80", None, {}, "UsageError", "address of an engine"),
    ("a bare key", "{url}", None, {"key": KEY}, "UsageError", "not a reference"),
    ("no such variable", "{url}", None, {"key": "env:NOPE_1"}, "UsageError", "NOPE_1"),
]


@pytest.mark.parametrize(
    ("url", "model", "options", "type_", "match"),
    [row[1:] for row in STARTS],
    ids=[row[0] for row in STARTS],
)
def test_starts_that_fail_say_what_to_do(portal, server_url, url, model, options, type_, match):
    error = refused(portal, url.format(url=server_url), model, **options)
    assert type(error).__name__ == type_
    assert match in error.message
    assert error.hint
    assert KEY not in str(error)


def test_keys_come_from_the_environment_and_stay_out_of_errors(portal, server_url, monkeypatch):
    monkeypatch.setenv("TEST_ENGINE_KEY", KEY)
    _, end = played(portal, server_url, request(), "tiny-locked", key="env:TEST_ENGINE_KEY")
    assert end.reason == "length"
    monkeypatch.setenv("TEST_ENGINE_KEY", "sk-canary")
    error = refused(portal, server_url, "tiny-locked", key="env:TEST_ENGINE_KEY")
    assert "401" in error.message
    assert "Incorrect API key provided: ***" in error.message
    assert "sk-canary" not in str(error)


def test_an_address_may_be_given_with_its_path(portal, server_url):
    _, end = played(portal, f"{server_url}/v1/", request())
    assert end.reason == "length"


def test_usage_errors_are_the_callers(server_url):
    with pytest.raises(UsageError):
        RemoteBackend("ftp://x", clock=MonotonicClock())
