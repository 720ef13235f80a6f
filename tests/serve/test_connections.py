"""Connections that send nothing, or slowly; foreign hosts and origins; who makes room."""

import asyncio

import anyio
import pytest

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.serve import ServeConfig
from agentrt.serve.connection import OneWrite, least_missed, most_connections

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
    from agentrt.serve import ApiKey

    keys = (ApiKey("one", "secret"),)
    assert ServeConfig("m", host="0.0.0.0", keys=keys).host_check is None
    assert ServeConfig("m", host="0.0.0.0", keys=keys, hosts=("A.example",)).host_check is not None
    assert ServeConfig("m").host_check is not None


@pytest.mark.parametrize("name", ["", "http://a.example", "a.example:80", "a.example/x", " a"])
def test_a_name_that_no_client_can_send_is_refused(name):
    with pytest.raises(UsageError, match="is no name of a host"):
        ServeConfig("m", hosts=("b.example", name))


def test_names_and_addresses_of_hosts_are_taken():
    hosts = ("A.example", "localhost", "10.0.0.1", "fe80::1")
    assert ServeConfig("m", hosts=hosts).host_check is not None


def test_tenants_without_keys_are_addresses_and_users():
    from agentrt.serve.api_keys import tenant_without_key

    assert tenant_without_key("1.2.3.4", None).name == "1.2.3.4"
    assert tenant_without_key("1.2.3.4", ["x"]).name == "1.2.3.4"
    names = {tenant_without_key("1.2.3.4", str(user)).name for user in range(2_000)}
    assert 32 < len(names) <= 64
    assert not names & {tenant_without_key("1.2.3.5", str(user)).name for user in range(100)}


def test_owners_are_a_key_or_an_address_and_its_clients():
    from agentrt.serve.api_keys import Tenant, tenant_with_key, tenant_without_key

    key = Tenant("key", "salt")
    found = [tenant_with_key(key, peer, user) for peer in ("::1", "::2") for user in (None, "u")]
    assert {one.owner.tenant for one in found} == {"key"}
    assert {(one.name, one.cache_salt) for one in found} == {("key", "salt")}
    assert len({one.owner.client for one in found}) == 4
    users = [tenant_without_key("1.2.3.4", user).owner for user in (None, "u")]
    assert {one.tenant for one in users} == {"1.2.3.4"}
    assert len({one.client for one in users}) == 2


@record
class Held:
    """A connection as it is seen by those that need room."""

    name: str
    stage: str
    waits_since_s: float
    client: tuple[str, int] | None = ("1.2.3.4", 1)


@pytest.mark.parametrize(
    ("held", "goes"),
    [
        ([], None),
        ([Held("answered", "", 0)], None),
        ([Held("answered", "", 0), Held("a", "head", 2), Held("b", "head", 1)], "b"),
        ([Held("a", "head", 1), Held("b", "idle", 3), Held("c", "idle", 2)], "c"),
        ([Held("a", "body", 2), Held("b", "body", 3), Held("c", "head", 1)], "a"),
        ([Held("a", "body", 1), Held("b", "head", 4), Held("c", "head", 3)], "c"),
        (
            [
                Held("few", "idle", 1, ("1.1.1.1", 1)),
                Held("a", "head", 2),
                Held("b", "head", 3),
                Held("none", "head", 0, None),
            ],
            "a",
        ),
    ],
)
def test_room_is_made_by_idle_ones_and_by_the_many(held, goes):
    found = least_missed(held)
    assert (found and found.name) == goes


class Pipe(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def write(self, data):
        self.writes.append(data)

    def close(self):
        self.writes.append(None)

    def is_closing(self):
        return None in self.writes


def test_a_head_goes_with_its_body():
    pipe = Pipe()
    transport = OneWrite(pipe, lambda: False)
    transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
    transport.write(b"body")
    transport.write(b"")
    transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    transport.write(b"")  # the end of a response without a body
    transport.write(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")
    transport.close()
    assert transport.is_closing()
    assert pipe.writes == [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
        None,
    ]


def test_a_kept_connection_is_idle_between_requests(portal, own_server):
    """It makes room for another, though it came last; the answer to a HEAD has no body."""

    async def main():
        async with own_server(max_connections=8) as url:
            halves = [await connected(url) for _ in range(7)]
            for stream in halves:
                await stream.send(HALF_HEAD)
            kept = await connected(url)
            await kept.send(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            head = await kept.receive()
            async with await connected(url) as last:
                await last.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                answer = await last.receive()
            left = await rest(kept)
            for stream in [*halves, kept]:
                await stream.aclose()
            return head, left, answer

    head, left, answer = portal.call(main)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert head.endswith(b"\r\n\r\n")
    assert left == b""
    assert b'\r\n\r\n{"status":"ok"' in answer


def test_requests_that_follow_without_waiting_are_answered_in_order(portal, own_server):
    paths = ("health", "v1/models", "nothing")
    requests = [f"GET /{path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for path in paths]

    async def main():
        async with own_server() as url:
            stream = await connected(url)
            async with stream:
                await stream.send(b"".join(requests[:2]) + requests[2][:9])
                await stream.send(requests[2][9:])
                found = b""
                while b"/nothing" not in found:
                    found += await stream.receive()
                return found

    found = portal.call(main)
    places = [found.index(text) for text in (b'"status"', b'"max_model_len"', b"/nothing")]
    assert places == sorted(places)
    assert found.count(b"HTTP/1.1 ") == 3


CHUNKED = HEAD + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET /health HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (GET + b"x: " + b"y" * 70_000, 431),
        (GET + b"x: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (GET + b"host: a\r\n" + b"x:\r\n" * 20_000 + b"\r\n", 431),
        (GET + b"y" * 70_000, 431),
        (b"GET /" + b"y" * 70_000, 431),
        (CHUNKED + b"1\r\nx\r\n0\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", 431),
        (CHUNKED + b"5;" + b"x" * 400_000, 431),
        (GET + b"\r\n", 400),
        (GET + b"host: localhost\r\nhost: evil.example\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\nhost: localhost\r\n\r\n", 400),
        (b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (GET + b"host: localhost\r\nx: \x00\r\n\r\n", 400),
        (GET + b"host: localhost\r\nx: a\r\n b\r\n\r\n", 400),
        (HEAD + b"content-length: 5\r\ncontent-length: 7\r\n\r\n", 400),
        (HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"content-length: -1\r\n\r\n", 400),
        (HEAD + b"transfer-encoding: gzip\r\n\r\n", 400),
        (CHUNKED + b"zz\r\n", 400),
        (CHUNKED + b"f" * 30 + b"\r\n", 400),
        (b"\x16\x03\x01\x02\x00", 400),
    ],
)
def test_malformed_and_long_heads_are_refused_and_the_connection_ends(
    sent, status, portal, own_server_url
):
    async def main():
        async with await connected(own_server_url) as stream:
            await _sent(stream, sent)
            return await rest(stream)

    found = portal.call(main)
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert found.count(b"HTTP/1.1 ") == 1


def test_requests_before_a_malformed_one_are_answered(portal, own_server_url):
    async def main():
        async with await connected(own_server_url) as stream:
            await stream.send(GET + b"host: localhost\r\n\r\n\x00\x01")
            return await rest(stream)

    found = portal.call(main)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert b'{"status":"ok"' in found
    assert found.count(b"HTTP/1.1 ") == 1


def test_a_head_of_some_length_is_read_in_parts(portal, own_server_url):
    sent = GET + b"host: localhost\r\n" + b"x: y\r\n" * 3_000 + b"\r\n"

    async def main():
        async with await connected(own_server_url) as stream:
            for start in range(0, len(sent), 1_000):
                await stream.send(sent[start : start + 1_000])
            return await stream.receive()

    assert portal.call(main).startswith(b"HTTP/1.1 200 ")


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
POST_OFFER = HEAD + b"content-type: application/json\r\n" + OFFER + b"content-length: 2\r\n\r\n"
HEALTH = GET + b"host: localhost\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [POST_OFFER + b"[]" + HEALTH + b"\r\n"],
        [POST_OFFER, b"[]", HEALTH + OFFER + b"\r\n"],
        [CHUNKED + b"2\r\n[]\r\n0\r\nhost: evil.example\r\n\r\n" + HEALTH + b"\r\n"],
    ],
    ids=["upgrade", "upgrade in parts", "trailer"],
)
def test_offers_of_an_upgrade_and_trailers_change_nothing(parts, portal, own_server_url):
    async def main():
        async with await connected(own_server_url) as stream:
            found = b""
            for part in parts:
                await stream.send(part)
            with anyio.fail_after(20):
                while b'{"status":"ok"' not in found:
                    found += await stream.receive()
            return found

    found = portal.call(main)
    assert b"the body: input should be an object" in found
    assert found.count(b"HTTP/1.1 ") == 2
