"""Each engine gets its own headers and key, at its own address, and nowhere else."""

import json
from contextlib import asynccontextmanager

import pytest

from agentrt import RemoteEngineConfig, RequestRejected, UsageError, chat, program
from agentrt.app import open_runtime
from agentrt.remote import listed_models
from agentrt.remote.request_headers import RequestHeaders
from tests.remote.hostile_server import WHOLE, head

ASK = chat(system="Be brief.")


@program
async def both() -> str:
    first = await ASK.user("a").generate(max_tokens=4)
    return first + await ASK.user("b").generate(max_tokens=4, model="big")


@asynccontextmanager
async def listening(answer):
    """A server with the heads of all requests to it."""
    import asyncio

    heads: list[dict[str, str]] = []

    async def connected(reader, writer):
        raw = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = dict(line.split(": ", 1) for line in raw[1:] if line)
        found = {name.lower(): value for name, value in found.items()} | {
            ":path": raw[0].split()[1]
        }
        heads.append(found)
        await reader.readexactly(int(found.get("content-length", 0)))
        writer.write(answer(found[":path"]))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


def serves(model):
    listed = json.dumps({"data": [{"id": model, "owned_by": "someone"}]}).encode()

    def answer(path):
        return head(kind="application/json") + listed if "models" in path else head() + WHOLE

    return answer


def test_each_engine_gets_its_own_key_and_headers(portal, monkeypatch):
    monkeypatch.setenv("KEY_A", "canary-of-a")
    monkeypatch.setenv("GATE_B", "canary-of-b")

    async def main():
        async with listening(serves("m")) as (a, heads_a), listening(serves("n")) as (b, heads_b):
            small = RemoteEngineConfig(address=a, key="env:KEY_A", organisation="o", project="p")
            big = RemoteEngineConfig(address=b, headers={"Api-Key": "env:GATE_B", "X-Team": "t"})
            async with open_runtime(engine=small, models={"big": big}) as runtime:
                assert await runtime.run(both) == "therethere"
            return heads_a, heads_b

    heads_a, heads_b = portal.call(main)
    wanted = ("Bearer canary-of-a", "o", "p")
    own = ("authorization", "openai-organization", "openai-project")
    assert {tuple(one[name] for name in own) for one in heads_a} == {wanted}
    assert {(one["api-key"], one["x-team"]) for one in heads_b} == {("canary-of-b", "t")}
    assert "canary-of-b" not in str(heads_a)
    assert "canary-of-a" not in str(heads_b)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_no_redirect_carries_a_key_on(portal, monkeypatch, status):
    monkeypatch.setenv("KEY_A", "canary-of-a")

    async def main():
        async with listening(serves("m")) as (other, heads):
            moved = head(status, more=f"Location: {other}/v1/models\r\nContent-Length: 0\r\n")
            async with listening(lambda path: moved) as (url, _):
                with pytest.raises(RequestRejected, match="a redirect to") as raised:
                    await listed_models(RemoteEngineConfig(address=url, key="env:KEY_A"))
            return raised.value, heads, other

    error, heads, other = portal.call(main)
    assert heads == []
    assert other in error.message


def test_headers_are_made_of_settings_and_variables():
    config = RemoteEngineConfig(kind="openai", key="env:K", headers={"X-A": "env:L", "X-B": "b"})
    made = RequestHeaders.of(config, {"K": "secret-k", "L": "secret-l"})
    assert made.headers == {"Authorization": "Bearer secret-k", "X-A": "secret-l", "X-B": "b"}
    assert made.secrets == ("secret-k", "secret-l")
    with pytest.raises(UsageError, match="the key: the variable K holds no API key"):
        RequestHeaders.of(config, {"L": "x"})
    with pytest.raises(UsageError, match="header X-A: its variable has a character"):
        RequestHeaders.of(config, {"K": "k", "L": "line\nend"})
