"""Exchanges with a server below the level of requests: heads, lengths, chunks and early ends."""

import json
from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.fuzz.bodies import GOOD, random_body

Ending = Literal["answer", "idle", "leave", "reset"]
"""How a client ends: behind the whole answer, once nothing comes any more, or in the middle of it,
with an orderly end of the connection or without."""

START = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
KIND = b"content-type: application/json\r\n"
ASKED = json.dumps(GOOD).encode()
STREAMED = json.dumps({**GOOD, "stream": True, "max_tokens": 400, "ignore_eos": True}).encode()


@dataclass(frozen=True)
class Exchange:
    """Bytes that a client sends.

    Attributes:
        name: Kind of the exchange.
        data: All that is sent.
        ending: How the client ends.
    """

    name: str
    data: bytes
    ending: Ending = "answer"


def post(body: bytes, name: str = "body", ending: Ending = "answer") -> Exchange:
    """A whole request with a body."""
    head = START + KIND + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    return Exchange(name, head + body, ending)


def random_exchange(dice: Random) -> Exchange:
    """Mostly a body with faults; sometimes a valid one, odd HTTP, or a client that leaves."""
    chance = dice.random()
    if chance < 0.72:
        return post(random_body(dice))
    if chance < 0.80:
        return post(ASKED, "valid")
    if chance < 0.90:
        return left(dice)
    name = dice.choice(tuple(ODDITIES))
    return Exchange(name, ODDITIES[name](dice), "idle")


def left(dice: Random) -> Exchange:
    """A client that leaves in the middle of its request, or of the answer."""
    ending: Ending = "leave" if dice.random() < 0.5 else "reset"
    whole = post(dice.choice((STREAMED, STREAMED, random_body(dice))), "left", ending)
    if dice.random() < 0.5:
        return whole
    return Exchange("half", whole.data[: dice.randrange(1, len(whole.data))], ending)


def _chunked(*lines: bytes) -> bytes:
    return START + KIND + b"transfer-encoding: chunked\r\n\r\n" + b"".join(lines)


def _with_length(length: bytes) -> bytes:
    return START + KIND + b"content-length: " + length + b"\r\n\r\n" + ASKED


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _in_bytes(dice: Random) -> bytes:
    return _chunked(*(_chunk(bytes((one,))) for one in ASKED), b"0\r\n\r\n")


ODDITIES = {
    "length": lambda dice: _with_length(
        dice.choice(
            (b"-1", b"x", b"0x10", b"1e3", b"", b"9" * 40, b"+5", b" 5 5", b"5, 6", b"1", b"0")
        )
    ),
    "two lengths": lambda dice: (
        START + KIND + b"content-length: 5\r\ncontent-length: 70\r\n\r\n" + ASKED
    ),
    "length and chunks": lambda dice: (
        START + KIND + b"content-length: 5\r\ntransfer-encoding: chunked\r\n"
        b"\r\n" + _chunk(ASKED) + b"0\r\n\r\n"
    ),
    "encodings": lambda dice: (
        START
        + KIND
        + b"transfer-encoding: "
        + dice.choice((b"gzip", b"chunked, chunked", b"identity", b"xchunked"))
        + b"\r\n\r\n"
        + _chunk(ASKED)
    ),
    "chunk sizes": lambda dice: _chunked(
        dice.choice(
            (b"-1\r\n", b"zz\r\n", b"f" * 30 + b"\r\n", b"5;x=" + b"y" * 9_000 + b"\r\n", b"\r\n")
        )
    ),
    "chunks of bytes": _in_bytes,
    "trailers": lambda dice: _chunked(_chunk(ASKED), b"0\r\n", b"x: y\r\n" * 500, b"\r\n"),
    "bare line feeds": lambda dice: (
        (START + KIND + b"content-length: %d\r\n\r\n" % len(ASKED)).replace(b"\r\n", b"\n") + ASKED
    ),
    "folded": lambda dice: START + KIND + b"x: a\r\n b\r\n\tc\r\n\r\n",
    "many headers": lambda dice: (
        START + b"".join(b"x%d: y\r\n" % at for at in range(20_000)) + b"\r\n"
    ),
    "a long header": lambda dice: (
        START + b"x: " + b"y" * dice.choice((9_000, 200_000)) + b"\r\n\r\n"
    ),
    "odd header": lambda dice: (
        START + dice.choice((b"a b: c", b": x", b"x\x00: y", b"x: \xff\x00", b"x")) + b"\r\n\r\n"
    ),
    "odd line": lambda dice: (
        dice.choice(
            (
                b"GET",
                b"GET / HTTP/9.9",
                b"\x16\x03\x01\x02\x00",
                b"POST  /v1 HTTP/1.1",
                b"PRI * HTTP/2.0",
                b"GET " + b"/" * 90_000 + b" HTTP/1.1",
                b"CONNECT a:1 HTTP/1.1\r\nhost: localhost",
                b"\r\n\r\n",
                b"OPTIONS * HTTP/1.1\r\nhost: localhost",
                b"GET /v1/%ff%00 HTTP/1.1\r\nhost: localhost",
            )
        )
        + b"\r\n\r\n"
    ),
    "route": lambda dice: (
        b"%s %s HTTP/1.1\r\nhost: localhost\r\n\r\n"
        % (
            dice.choice((b"GET", b"PUT", b"DELETE", b"HEAD", b"BREW")),
            dice.choice(
                (
                    b"/",
                    b"/health",
                    b"/v1/models",
                    b"/v1/chat/completions",
                    b"/../etc/passwd",
                    b"/docs",
                )
            ),
        )
    ),
    "no host": lambda dice: (
        b"GET /v1/models HTTP/1.1\r\n"
        + dice.choice(
            (
                b"",
                b"host: evil.example\r\n",
                b"host: localhost\r\nhost: evil.example\r\n",
                b"host: \xff\r\n",
            )
        )
        + b"\r\n"
    ),
    "kind": lambda dice: (
        START
        + b"content-type: "
        + dice.choice(
            (
                b"text/plain",
                b"application/json; charset=utf-16",
                b"application/jsonx",
                b"\xff",
                b"multipart/form-data",
            )
        )
        + b"\r\ncontent-length: %d\r\n\r\n" % len(ASKED)
        + ASKED
    ),
    "expects": lambda dice: START + KIND + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n",
    "upgrade": lambda dice: (
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n"
        b"upgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n"
    ),
    "pipelined": lambda dice: (
        (START + KIND + b"content-length: %d\r\n\r\n" % len(ASKED) + ASKED)
        * dice.choice((2, 5, 30))
    ),
    "garbage": lambda dice: dice.randbytes(dice.choice((1, 100, 70_000))),
    "silence": lambda dice: b"",
}
