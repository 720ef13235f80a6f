"""The routes: completions, tokens, the model, its load, and the health check."""

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
    send_whole,
)
from agentrt.serve.body_routes import BodyRoute
from agentrt.serve.completion import Completion
from agentrt.serve.host_check import HostCheck
from agentrt.serve.metrics import CONTENT_TYPE, metrics_text
from agentrt.serve.refusal import RequestRefused, noted
from agentrt.serve.request_body import BodyMemory, HeldBody
from agentrt.serve.request_spans import RequestSpans
from agentrt.serve.served_model import ServedModel
from agentrt.serve.tokenizing import detokenized, tokenized

HEALTH = "/health"
MODELS = "/v1/models"
METRICS = "/metrics"
TOKENIZE = "/tokenize"
DETOKENIZE = "/detokenize"
COMPLETIONS: dict[str, BodyRoute] = {"/v1/chat/completions": "chat", "/v1/completions": "text"}
_POSTED = (*COMPLETIONS, TOKENIZE, DETOKENIZE)
_METHODS = dict.fromkeys((MODELS, METRICS, HEALTH), ("GET", "HEAD")) | dict.fromkeys(
    _POSTED, ("POST",)
)

_UNTRACED = (HEALTH, METRICS)
"""Routes that are asked every few seconds, for nothing that a trace would show."""

HttpScope = MutableMapping[str, Any]
RequestHeaders = dict[bytes, bytes]


class Application:
    """The API over a model, for an ASGI server.

    Args:
        model: Model that answers.
        keys: Keys of which every route but the health check requires one; () requires none.
        hosts: Names under which it may be called; None allows all.
        spans: Makes the spans of requests; None makes those that a tracer provider takes.
    """

    def __init__(
        self,
        model: ServedModel,
        keys: Sequence[ApiKey] = (),
        hosts: HostCheck | None = None,
        spans: RequestSpans | None = None,
    ) -> None:
        self._model = model
        self._memory = BodyMemory()
        self._keys = ApiKeys(keys) if keys else None
        self._hosts = hosts
        self._spans = spans or RequestSpans()

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        if path in _UNTRACED:
            await self._serve(scope, receive, send)
            return
        with self._spans.span_of(scope, path if path in _METHODS else "") as span:

            async def noting_send(event: AsgiEvent) -> None:
                if event["type"] == "http.response.start":
                    span.status = event["status"]
                await send(event)

            await self._serve(scope, receive, noting_send)

    async def _serve(self, scope: HttpScope, receive: Receive, send: Send) -> None:
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
        elif path == METRICS:
            text = metrics_text(self._model.load, self._model.name)
            await send_whole(text.encode(), CONTENT_TYPE, send)
        else:
            await self._take(scope, headers, key, receive, send)

    async def _take(
        self,
        scope: HttpScope,
        headers: RequestHeaders,
        key: Tenant | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """Receive a body, and answer it by the route."""
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

        path = scope["path"]
        if path in COMPLETIONS:
            route = COMPLETIONS[path]
            await Completion(route, self._model, body, tenant_of, send).serve(receive)
            return
        try:
            if path == TOKENIZE:
                await send_json(await tokenized(self._model, body, tenant_of), send)
            else:
                await send_json(await detokenized(self._model, body), send)
        finally:
            body.release()

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
        load = self._model.load
        name, *adapters = self._model.names
        entry = {
            "id": name,
            "object": "model",
            "created": self._model.started_at_unix_s,
            "owned_by": "agentrt",
            "max_model_len": self._model.window_tokens,
            "max_num_seqs": load.slots,
            "kv_cache_tokens": load.kv_tokens,
            "kv_cache_bytes": load.kv_bytes,
        }
        entries = [entry, *({**entry, "id": one, "parent": name} for one in adapters)]
        return json.dumps({"object": "list", "data": entries}).encode()

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
