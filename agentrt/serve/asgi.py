"""The part of ASGI that the server speaks: one request, and the events of its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from agentrt.serve.refusal import RequestRefused

AsgiEvent = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiEvent]]
Send = Callable[[AsgiEvent], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class ClientLeft(Exception):
    """A client left before its request was complete."""


async def read_body(receive: Receive, count: Callable[[int], None]) -> bytes:
    """The body of a request.

    Args:
        receive: Gives the events of the request.
        count: Called with the bytes that have come so far; raises if they are too many.

    Raises:
        ClientLeft: The body is not complete.
    """
    found = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft
        found += event.get("body", b"")
        count(len(found))
        if not event.get("more_body", False):
            return bytes(found)


def whole_json(body: bytes) -> Headers:
    """Headers of JSON in one piece."""
    return _whole(body, b"application/json")


def _whole(body: bytes, kind: bytes) -> Headers:
    """Headers of a response in one piece; without the length its end is a write of its own."""
    return [(b"content-length", str(len(body)).encode()), (b"content-type", kind)]


def response_start(status: int, headers: Headers) -> AsgiEvent:
    """The event with the head of a response."""
    return {"type": "http.response.start", "status": status, "headers": headers}


def response_body(body: bytes, *, more: bool = False) -> AsgiEvent:
    """The event with a part of the body of a response."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def send_json(body: bytes, send: Send, status: int = 200) -> None:
    """Send a response in one piece."""
    await send(response_start(status, whole_json(body)))
    await send(response_body(body))


async def send_whole(body: bytes, kind: bytes, send: Send) -> None:
    """Send a response of another content type in one piece."""
    await send(response_start(200, _whole(body, kind)))
    await send(response_body(body))


async def send_refusal(refused: RequestRefused, send: Send) -> None:
    """Send a response that says why a request is not served."""
    body = refused.encoded()
    headers = [(name.encode(), value.encode()) for name, value in refused.headers().items()]
    await send(response_start(refused.status, whole_json(body) + headers))
    await send(response_body(body))
