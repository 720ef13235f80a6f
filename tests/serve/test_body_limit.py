"""Bodies that hold more than any prompt of the window are refused before they are read."""

import json

import anyio
import pytest

from agentrt.serve.prompt_size import MOST_BODY_BYTES, OTHER_BYTES, body_limit
from agentrt.serve.refusal import RequestRefused

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
)
CHUNK = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"


@pytest.mark.parametrize(
    ("window_tokens", "token_bytes", "most"),
    [
        (100, 5, 3_000 + OTHER_BYTES),
        (0, 5, MOST_BODY_BYTES),
        (100, 0, MOST_BODY_BYTES),
        (1 << 20, 100, MOST_BODY_BYTES),
    ],
)
def test_the_limit_is_the_window_in_the_longest_tokens(window_tokens, token_bytes, most):
    limit = body_limit(window_tokens, token_bytes)
    assert limit.most_bytes == most
    limit.check(most)
    with pytest.raises(RequestRefused, match=f"longer than {most} bytes.*Shorten") as refused:
        limit.check(most + 1)
    assert refused.value.status == 413


def test_the_fullest_prompt_fits_a_body_of_the_limit(codec, portal, own_server_url, wire):
    """The longest token in a row, each character escaped, and all else that a body may hold."""
    limit = body_limit(codec.window_tokens, codec.most_text_bytes)
    longest = max(codec.vocab.token_bytes, key=len).decode()
    content = longest * (codec.window_tokens - 64)
    assert limit.most_bytes < MOST_BODY_BYTES
    text = json.dumps(wire.body("TEXT", max_tokens=1))
    text = text.replace("TEXT", "".join(f"\\u{ord(one):04x}" for one in content))
    whole = text + " " * (limit.most_bytes - len(text))

    async def post(sent):
        async with wire.client(own_server_url) as client:
            headers = {"content-type": "application/json"}
            return await client.post("/chat/completions", content=sent, headers=headers)

    answered = portal.call(post, whole)
    assert answered.status_code == 200, answered.text
    assert answered.json()["usage"]["prompt_tokens"] > codec.window_tokens - 64
    refused = portal.call(post, whole + " ")
    assert refused.status_code == 413
    assert f"{codec.window_tokens} tokens" in refused.json()["error"]["message"]


async def _connected(url):
    return await anyio.connect_tcp("127.0.0.1", int(url.split(":")[-1].removesuffix("/v1")))


async def _rest(stream):
    found = b""
    try:
        while True:
            found += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return found


def test_a_body_is_refused_by_its_length_alone(codec, portal, own_server_url):
    most = body_limit(codec.window_tokens, codec.most_text_bytes).most_bytes

    async def main():
        async with await _connected(own_server_url) as stream:
            await stream.send(HEAD + b"content-length: %d\r\n\r\n" % (most + 1))
            return await _rest(stream)

    found = portal.call(main)
    assert found.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in found
    assert f"longer than {most} bytes".encode() in found


def test_a_body_in_chunks_is_refused_once_it_is_too_long(portal, own_server_url):
    async def main():
        async with await _connected(own_server_url) as stream:
            await stream.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            for _ in range(9):  # without the last chunk
                await stream.send(CHUNK)
            return await _rest(stream)

    assert portal.call(main).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_goes_on_sending_is_cut(portal, own_server_url):
    async def main():
        sent = 0
        async with await _connected(own_server_url) as stream:
            await stream.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            try:
                while sent < 200:
                    await stream.send(CHUNK)
                    sent += 1
            except anyio.BrokenResourceError:
                return sent
        return sent

    assert portal.call(main) < 100
