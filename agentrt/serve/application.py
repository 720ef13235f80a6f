"""The routes: completions, the model, and the health check."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.serve.api_keys import ApiKey, ApiKeys, Tenant, tenant_without_key
from agentrt.serve.completion import Completion
from agentrt.serve.host_check import HostCheck
from agentrt.serve.refusal import RequestRefused, noted
from agentrt.serve.request_body import BodyMemory, HeldBody
from agentrt.serve.served_model import ServedModel

HEALTH = "/health"
_TENANT = "agentrt.tenant"


def application(
    model: ServedModel, keys: Sequence[ApiKey] = (), hosts: HostCheck | None = None
) -> Starlette:
    """The API over a model.

    Args:
        model: Model that answers.
        keys: Keys of which every route but the health check requires one; () requires none.
        hosts: Names under which it may be called; None allows all.
    """
    memory = BodyMemory()

    async def completions(request: Request) -> Response:
        peer = request.client.host if request.client is not None else ""
        tenant: Tenant | None = request.scope[_TENANT]
        body = HeldBody(memory, tenant.name if tenant is not None else peer)
        await body.receive(request)
        return Completion(model, body, lambda user: tenant or tenant_without_key(peer, user))

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
        middleware=[Middleware(_Guard, keys=ApiKeys(keys) if keys else None, hosts=hosts)],
        exception_handlers={
            RequestRefused: _refused,
            HTTPException: _unknown,
            ClientDisconnect: _left,
            Exception: _broken,
        },
    )


class _Guard:
    """Requires a known host and a key, and notes the tenant that the key stands for."""

    def __init__(self, app: ASGIApp, keys: ApiKeys | None, hosts: HostCheck | None) -> None:
        self._app = app
        self._keys = keys
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            try:
                if self._hosts is not None:
                    self._hosts.check(headers)
                scope[_TENANT] = self._tenant(scope["path"], headers)
            except RequestRefused as refused:
                await _response(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _tenant(self, path: str, headers: dict[bytes, bytes]) -> Tenant | None:
        """The tenant of the request's key; None if it needs no key.

        Raises:
            RequestRefused: The key is missing or wrong.
        """
        if self._keys is None or path == HEALTH:
            return None
        tenant = self._keys.tenant_of(headers.get(b"authorization", b""))
        if tenant is None:
            why = "the API key is missing or wrong"
            raise RequestRefused(401, why, code="invalid_api_key")
        return tenant


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
    return _response(RequestRefused(500, noted("the server broke on this request", error)))
