"""Connections that send nothing, or slowly; foreign hosts and origins; shares of the queue."""

import anyio
import pytest

from agentrt.serve.connection import most_connections
from agentrt.serve.shares import RequestShares

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
HALF_HEAD = HEAD[:-10]
HALF_BODY = HEAD + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"


async def connected(url):
    port = int(url.split(":")[-1].removesuffix("/v1"))
    return await anyio.connect_tcp("127.0.0.1", port)


async def rest(stream):
    """What a server sends until it closes."""
    found = b""
    try:
        while True:
            found += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return found


@pytest.mark.parametrize("half", [b"", HALF_HEAD, HALF_BODY])
def test_half_a_request_is_closed_after_a_time(half, portal, own_server):
    async def main():
        async with own_server(head_timeout_s=0.05, body_timeout_s=0.05) as url:
            stream = await connected(url)
            async with stream:
                if half:
                    await stream.send(half)
                return await rest(stream)

    assert portal.call(main).startswith(b"HTTP/1.1 408 ")


def test_half_requests_make_room_for_others(portal, own_server, wire):
    async def main():
        async with own_server(max_connections=3) as url:
            halves = [await connected(url) for _ in range(9)]
            for place, stream in enumerate(halves):
                await _sent(stream, HALF_BODY if place % 2 else HALF_HEAD)
            async with wire.client(url) as client:
                found = await client.post("/chat/completions", json=wire.body())
            for stream in halves:
                await stream.aclose()
            return found

    assert portal.call(main).status_code == 200


async def _sent(stream, data):
    try:
        await stream.send(data)
    except anyio.BrokenResourceError:
        return


def test_connections_are_fewer_than_files():
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections(3) in (3, 8)
    assert most_connections(1 << 40) < soft


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:99"}, 200),
        ({"host": "[::1]:99"}, 200),
        ({"host": "good.example"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"host": "a b"}, 421),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://Good.example"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(headers, status, portal, own_server, wire):
    async def main():
        async with own_server(hosts=("good.example",)) as url, wire.client(url) as client:
            return [
                await client.get("/models", headers=headers),
                await client.get(client.base_url.copy_with(raw_path=b"/health"), headers=headers),
                await client.post("/chat/completions", json=wire.body(), headers=headers),
            ]

    assert [one.status_code for one in portal.call(main)] == [status] * 3


def test_a_server_elsewhere_takes_every_name_unless_some_are_given():
    from agentrt.serve import ApiKey, ServeConfig

    keys = (ApiKey("one", "secret"),)
    assert ServeConfig("m", host="0.0.0.0", keys=keys).host_check is None
    assert ServeConfig("m", host="0.0.0.0", keys=keys, hosts=("A.example",)).host_check is not None
    assert ServeConfig("m").host_check is not None


def test_a_newcomer_has_a_share_of_a_full_queue(portal):
    async def main():
        shares = RequestShares(4)
        scopes = [anyio.CancelScope() for _ in range(4)]
        for scope in scopes:
            assert shares.has_room("many")
            shares.add(scope, "many")
        assert not shares.has_room("many")
        for _ in range(2):
            assert shares.has_room("new")
            shares.add(anyio.CancelScope(), "new")
        assert not shares.has_room("new")
        for scope in scopes[:2]:
            shares.remove(scope, "many")
        assert not shares.has_room("many")
        assert len(shares) == 4

    portal.call(main)


def test_tenants_without_keys_are_addresses_and_users():
    from agentrt.serve.api_keys import tenant_without_key

    assert tenant_without_key("1.2.3.4", None).name == "1.2.3.4"
    assert tenant_without_key("1.2.3.4", ["x"]).name == "1.2.3.4"
    names = {tenant_without_key("1.2.3.4", str(user)).name for user in range(2_000)}
    assert 32 < len(names) <= 64
    assert not names & {tenant_without_key("1.2.3.5", str(user)).name for user in range(100)}
