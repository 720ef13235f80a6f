"""Clients that leave, too many of them, an engine that dies, and an orderly end."""

import contextlib
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import nullcontext

import anyio
import httpx
import pytest

from agentrt import embedded
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.cli.main import answer
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.serve import ServeConfig, serving

LONG = {"max_tokens": 4000, "ignore_eos": True}


async def under_way(client):
    health = client.base_url.copy_with(raw_path=b"/health")
    return (await client.get(health)).json()["under_way"]


async def until(client, count):
    """Wait for so many requests to be under way; each look is a request of its own."""
    while await under_way(client) != count:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_request(stream, portal, own_server_url, wire):
    async def main():
        async with wire.client(own_server_url) as client:
            async with anyio.create_task_group() as tasks:
                question = wire.body(stream=stream, **LONG)
                tasks.start_soon(lambda: client.post("/chat/completions", json=question))
                await until(client, 1)
                tasks.cancel_scope.cancel()
            await until(client, 0)
            return await client.post("/chat/completions", json=wire.body())

    assert portal.call(main).status_code == 200


def test_accepted_connections_send_at_once(portal, own_server_url, wire):
    """With Nagle's algorithm each answer on a kept connection waits for an acknowledgement."""

    async def main():
        async with wire.client(own_server_url) as client:
            await client.get("/models")  # the connection stays open
            return [
                one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                for one in accepted_at(client.base_url.port)
            ]

    no_delay = portal.call(main)
    assert no_delay
    assert all(no_delay)


def accepted_at(port):
    """Copies of this process's sockets that a listener at `port` accepted."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # closed since it was listed, or not connected
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.getsockname()[1:2] == (port,) and one.getpeername():
                    yield one


def test_too_many_are_told_to_come_back(portal, own_server, wire):
    """Whatever addresses their headers claim: else each could be the first of a tenant."""

    async def main():
        async with (
            own_server(most_requests=2) as url,
            wire.client(url) as client,
            anyio.create_task_group() as tasks,
        ):

            async def post(question, number):
                headers = {"x-forwarded-for": f"9.9.9.{number}"}
                return await client.post("/chat/completions", json=question, headers=headers)

            for number in range(2):
                tasks.start_soon(post, wire.body(**LONG), number)
            await until(client, 2)
            refused = await post(wire.body(), 2)
            tasks.cancel_scope.cancel()
        return refused

    refused = portal.call(main)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["type"] == "rate_limit_error"


def test_the_last_of_the_largest_tenant_makes_room(portal, own_server, wire):
    """Of the requests that wait for a turn, the last one is told to come back."""

    async def main():
        found = []
        async with (
            own_server(most_requests=40) as url,
            wire.client(url) as client,
            anyio.create_task_group() as tasks,
        ):

            async def post(question):
                found.append(await client.post("/chat/completions", json=question))

            for number in range(40):
                tasks.start_soon(post, wire.body(str(number), **LONG))
            await until(client, 40)
            transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
            async with wire.client(url, transport=transport) as newcomer:
                response = await newcomer.post("/chat/completions", json=wire.body())
            tasks.cancel_scope.cancel()
        return response, found

    response, found = portal.call(main)
    assert response.status_code == 200
    assert [one.status_code for one in found] == [429]


def test_an_end_waits_for_answers_under_way(portal, own_server, wire):
    async def main():
        found = []

        async def post(client):
            question = wire.body(max_tokens=200, ignore_eos=True)
            found.append(await client.post("/chat/completions", json=question))

        async with anyio.create_task_group() as tasks:
            async with own_server(grace_s=60) as url:
                client = wire.client(url)
                tasks.start_soon(post, client)
                await until(client, 1)
            assert len(found) == 1  # the server is gone, and answered before
            with pytest.raises(httpx.ConnectError):
                await client.get("/models")
            await client.aclose()
        return found[0]

    answer = portal.call(main)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 200


async def at_once():
    """Somebody in a hurry."""


@pytest.mark.parametrize(
    ("stream", "end"),
    [
        (False, {"grace_s": 0.0}),
        (True, {"grace_s": 0.0}),
        (True, {"grace_s": 1e6, "hurry": at_once}),
    ],
)
def test_who_is_not_waited_for_is_told(stream, end, portal, own_server, wire, caplog):
    async def main():
        told = []

        async def post(client):
            question = wire.body(stream=stream, **LONG)
            told.append(await client.post("/chat/completions", json=question))

        async with anyio.create_task_group() as tasks, own_server(**end) as url:
            client = wire.client(url)
            tasks.start_soon(post, client)
            await until(client, 1)
        await client.aclose()
        return told[0]

    response = portal.call(main)
    assert response.status_code in ((200, 503) if stream else (503,))  # a stream may have begun
    assert "the server is going down" in response.text
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_an_engine_that_dies_is_replaced_and_requests_go_on(portal, wire):
    """The embedded model's, which starts quickest."""

    async def main():
        engine = EngineConfig(embedded.path(), threads=1)
        config = ServeConfig("tiny", port=0)
        with anyio.fail_after(300):
            async with (
                open_runtime(engine=engine) as runtime,
                serving(config, nullcontext(runtime)) as url,
                wire.client(url) as client,
                anyio.create_task_group() as tasks,
            ):
                told = []

                async def post(question):
                    told.append(await client.post("/chat/completions", json=question))

                question = wire.body(stream=True, **LONG)
                async with client.stream("POST", "/chat/completions", json=question) as stream:
                    events = stream.aiter_lines()
                    while "content" not in await anext(events):
                        pass  # it decodes from there on
                    tasks.start_soon(post, wire.body(**LONG))
                    await until(client, 2)
                    backend = runtime.engines["default"].backend
                    assert isinstance(backend, EmbeddedBackend)
                    assert backend.pid is not None
                    os.kill(backend.pid, signal.SIGKILL)
                    last = [line async for line in events if line][-1]
                await post(wire.body())
                await until(client, 0)
                return last, *told

    last, died, after = portal.call(main)
    assert last == "data: [DONE]"
    assert [died.status_code, after.status_code] == [200, 200]


def test_nobody_waits_for_an_engine_whose_events_end(portal, tiny, wire):
    async def main():
        found = []

        async def post(client, question):
            found.append(await client.post("/chat/completions", json=question))

        with anyio.fail_after(300):
            async with (
                open_runtime(engine=tiny, place="thread") as runtime,
                serving(ServeConfig("tiny", port=0), nullcontext(runtime)) as url,
                wire.client(url) as client,
            ):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(post, client, wire.body(**LONG))
                    await until(client, 1)
                    await runtime.engines["default"].backend.aclose()
                await post(client, wire.body())
                found.append(await client.get(client.base_url.copy_with(raw_path=b"/health")))
        return found

    first, then, health = portal.call(main)
    assert [one.status_code for one in (first, then, health)] == [503, 503, 503]
    assert "gone" in then.json()["error"]["message"]
    assert health.json() == {"status": "down", "under_way": 0}


def test_the_command_serves_until_it_is_terminated(wire):
    """The embedded model, from the command line."""
    command = [sys.executable, "-m", "agentrt", "serve", "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told.startswith("embedded is served at http://127.0.0.1:")
            question = wire.body(model="embedded")
            url = f"{told.split()[-1]}/chat/completions"
            response = httpx.post(url, json=question, timeout=300, trust_env=False)
            assert response.json()["usage"]["completion_tokens"] > 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_wrong_flag_is_told(capfd):
    assert answer(["serve", "--dtype", "int3"]) == 2
    assert answer(["serve", "--api-key", "env:HOME", "--api-key", "secret"]) == 2
    assert answer(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    told = capfd.readouterr().err
    for complaint in ("--dtype 'int3'", "not a reference", "there is no key"):
        assert complaint in told
    assert "secret" not in told
