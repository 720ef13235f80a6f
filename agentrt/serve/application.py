"""The routes: completions, the model, and the health check."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.serve.api_keys import ApiKey, ApiKeys, Tenant
from agentrt.serve.completion import Completion
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import chat_request_of
from agentrt.serve.served_model import ServedModel

MOST_BODY_BYTES = 8 << 20
HEALTH = "/health"
_TENANT = "agentrt.tenant"
_log = logging.getLogger("agentrt.serve")


def application(model: ServedModel, keys: Sequence[ApiKey] = ()) -> Starlette:
    """The API over a model.

    Args:
        model: Model that answers.
        keys: Keys of which every route but the health check requires one; () requires none.
    """

    async def completions(request: Request) -> Response:
        question = chat_request_of(await _body(request))
        return Completion(model, question, request.scope.get(_TENANT, Tenant()))

    async def models(request: Request) -> Response:
        entry = {
            "id": model.name,
            "object": "model",
            "created": model.started_at_unix_s,
            "owned_by": "agentrt",
            "max_model_len": model.window_tokens,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(request: Request) -> Response:
        is_up = model.down is None
        state = {"status": "ok" if is_up else "down", "under_way": model.under_way}
        return JSONResponse(state, 200 if is_up else 503)

    return Starlette(
        routes=[
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route(HEALTH, health),
        ],
        middleware=[Middleware(_Guard, keys=ApiKeys(keys))] if keys else [],
        exception_handlers={
            RequestRefused: _refused,
            HTTPException: _unknown,
            ClientDisconnect: _left,
            Exception: _broken,
        },
    )


class _Guard:
    """Requires a key, and notes the tenant that it stands for."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            given = dict(scope["headers"]).get(b"authorization", b"")
            scope[_TENANT] = self._keys.tenant_of(given)
            if scope[_TENANT] is None:
                why = "the API key is missing or wrong"
                refused = RequestRefused(401, why, code="invalid_api_key")
                await _response(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _body(request: Request) -> bytes:
    """The body, of JSON and of a size that fits.

    A page of another site can have a browser post plain text here, but not JSON.

    Raises:
        RequestRefused: The body is something else, or too long.
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


def _response(refused: RequestRefused) -> Response:
    return JSONResponse(refused.body(), refused.status, refused.headers())


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return _response(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _response(
        RequestRefused(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    )


async def _left(request: Request, error: Exception) -> Response:
    """The client left before its request was complete: this reaches no reader."""
    return Response(status_code=499)


async def _broken(request: Request, error: Exception) -> Response:
    """A bug of the server: the log has it, the client gets no internals."""
    _log.error("a request broke", exc_info=error)
    return _response(RequestRefused(500, "the server broke on this request; its log says how"))
