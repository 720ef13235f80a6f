"""The least ASGI application: what plain uvicorn needs to answer a health check.

Run as `python -m uvicorn agentrt.lab.bench.serve.plain_app:plain_app`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
_BODY = b'{"status":"ok","under_way":0}'
_HEAD: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-length", str(len(_BODY)).encode()),
        (b"content-type", b"application/json"),
    ],
}


async def plain_app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer every request alike."""
    await send(_HEAD)
    await send({"type": "http.response.body", "body": _BODY})
