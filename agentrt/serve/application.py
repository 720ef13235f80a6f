"""The routes: completions, the model, and the health check."""

from __future__ import annotations

import json
from collections.abc import MutableMapping, Sequence
from typing import Any

from agentrt.serve.api_keys import ApiKey, ApiKeys, Tenant, tenant_with_key, tenant_without_key
from agentrt.serve.asgi import (
    AsgiEvent,
    ClientLeft,
    Receive,
    Send,
    send_json,
    send_refusal,
)
from agentrt.serve.completion import Completion
from agentrt.serve.host_check import HostCheck
from agentrt.serve.refusal import RequestRefused, noted
from agentrt.serve.request_body import BodyMemory, HeldBody
from agentrt.serve.served_model import ServedModel

COMPLETIONS = "/v1/chat/completions"
MODELS = "/v1/models"
HEALTH = "/health"
_METHODS = {COMPLETIONS: ("POST",), MODELS: ("GET", "HEAD"), HEALTH: ("GET", "HEAD")}

HttpScope = MutableMapping[str, Any]
RequestHeaders = dict[bytes, bytes]


class Application:
    """The API over a model, for an ASGI server.

    Args:
        model: Model that answers.
        keys: Keys of which every route but the health check requires one; () requires none.
        hosts: Names under which it may be called; None allows all.
    """

    def __init__(
        self, model: ServedModel, keys: Sequence[ApiKey] = (), hosts: HostCheck | None = None
    ) -> None:
        self._model = model
        self._memory = BodyMemory()
        self._keys = ApiKeys(keys) if keys else None
        self._hosts = hosts

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_begun = False

        async def noting_send(event: AsgiEvent) -> None:
            nonlocal has_begun
            has_begun = True
            await send(event)

        try:
            await self._answer(scope, receive, noting_send)
        except RequestRefused as refused:
            await send_refusal(refused, send)
        except ClientLeft:
            return
        except Exception as error:  # a bug: the log has it, the client gets no internals
            message = noted("the server broke on this request", error)
            if not has_begun:
                await send_refusal(RequestRefused(500, message), send)

    async def _answer(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        headers: RequestHeaders = dict(scope["headers"])
        if self._hosts is not None:
            self._hosts.check(headers)
        path, method = scope["path"], scope["method"]
        key = None if path == HEALTH else self._key(headers)
        methods = _METHODS.get(path)
        if methods is None:
            raise RequestRefused(404, f"{method} {path}: Not Found")
        if method not in methods:
            raise RequestRefused(405, f"{method} {path}: Method Not Allowed")
        if path == HEALTH:
            is_up = self._model.down is None
            await send_json(self._health(is_up), send, 200 if is_up else 503)
        elif path == MODELS:
            await send_json(self._models(), send)
        else:
            await self._complete(scope, headers, key, receive, send)

    async def _complete(
        self,
        scope: HttpScope,
        headers: RequestHeaders,
        key: Tenant | None,
        receive: Receive,
        send: Send,
    ) -> None:
        _check_json(headers)
        limit = self._model.body_limit
        limit.check(_declared_bytes(headers))
        peer = scope["client"][0] if scope.get("client") else ""
        body = HeldBody(self._memory, peer if key is None else key.name)
        await body.receive(receive, limit)

        def tenant_of(user: object) -> Tenant:
            if key is None:
                return tenant_without_key(peer, user)
            return tenant_with_key(key, peer, user)

        await Completion(self._model, body, tenant_of, send).serve(receive)

    def _key(self, headers: RequestHeaders) -> Tenant | None:
        """The tenant of the request's key; None if keys are not required.

        Raises:
            RequestRefused: The key is missing or wrong.
        """
        if self._keys is None:
            return None
        tenant = self._keys.tenant_of(headers.get(b"authorization", b""))
        if tenant is None:
            why = "the API key is missing or wrong"
            raise RequestRefused(401, why, code="invalid_api_key")
        return tenant

    def _models(self) -> bytes:
        entry = {
            "id": self._model.name,
            "object": "model",
            "created": self._model.started_at_unix_s,
            "owned_by": "agentrt",
            "max_model_len": self._model.window_tokens,
        }
        return json.dumps({"object": "list", "data": [entry]}).encode()

    def _health(self, is_up: bool) -> bytes:
        status = "ok" if is_up else "down"
        return b'{"status":"%s","under_way":%d}' % (status.encode(), self._model.under_way)


def _declared_bytes(headers: RequestHeaders) -> int:
    """Length of the body as the head gives it; 0 for one that comes in chunks."""
    given = headers.get(b"content-length", b"")
    return int(given) if given.isdigit() else 0


def _check_json(headers: RequestHeaders) -> None:
    """Refuse a body that is not JSON: a page of another site can have a browser post plain text.

    Raises:
        RequestRefused: The body is of another type.
    """
    given = headers.get(b"content-type", b"").decode("latin-1")
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, f"content-type is {kind or 'missing'}: send application/json")
