"""The routes: completions, the model, and whether it is well."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.base.segments import CallFrame
from agentrt.serve.completion import Completion
from agentrt.serve.dispatch import Service
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import chat_request_of

MOST_BODY_BYTES = 8 << 20
HEALTH = "/health"
_log = logging.getLogger("agentrt.serve")


def application(service: Service, frame: CallFrame, key: str = "") -> Starlette:
    """The API over a service that was started.

    Args:
        service: What answers.
        frame: How its model writes calls.
        key: That every route but the health check asks for; "" asks for none.
    """
    numbers = itertools.count(1)

    async def completions(request: Request) -> Response:
        question = chat_request_of(await _body(request))
        return Completion(service, question, frame, f"chatcmpl-{next(numbers):06d}")

    async def models(request: Request) -> Response:
        entry = {
            "id": service.model,
            "object": "model",
            "created": service.started_at_unix_s,
            "owned_by": "agentrt",
            "max_model_len": service.window_tokens,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(request: Request) -> Response:
        told = {"status": "ok" if service.is_well else "down", "under_way": service.under_way}
        return JSONResponse(told, 200 if service.is_well else 503)

    return Starlette(
        routes=[
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route(HEALTH, health),
        ],
        middleware=[Middleware(_Guard, key=key)] if key else [],
        exception_handlers={
            RequestRefused: _refused,
            HTTPException: _unknown,
            ClientDisconnect: _left,
            Exception: _broken,
        },
    )


class _Guard:
    """Lets in who has the key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._digest = hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH and not self._knows(scope):
            refused = RequestRefused(401, "the API key is missing or wrong", code="invalid_api_key")
            await _told(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        """Digests are compared, so that the time tells nothing of the key."""
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = given.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        return scheme.lower() == b"bearer" and hmac.compare_digest(digest, self._digest)


async def _body(request: Request) -> bytes:
    """The body, of JSON and of a size that fits.

    A page of some other site can have a browser post plain text to us, but not JSON.

    Raises:
        Refused: It is not.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, f"content-type is {kind or 'missing'}: send application/json")
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > MOST_BODY_BYTES:
            raise RequestRefused(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
    return bytes(found)


def _told(refused: RequestRefused) -> Response:
    return JSONResponse(refused.body(), refused.status, refused.headers())


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return _told(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(
        RequestRefused(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    )


async def _left(request: Request, error: Exception) -> Response:
    """The client left while it was still asking: nobody reads this."""
    return Response(status_code=499)


async def _broken(request: Request, error: Exception) -> Response:
    """Our own bug: the log has it, the client gets no internals."""
    _log.error("a request broke", exc_info=error)
    return _told(RequestRefused(500, "the server broke on this request; its log says how"))
