"""One chat completion over one connection, which ends when its client leaves."""

from __future__ import annotations

import json
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentrt.program import Gen
from agentrt.serve.answer import ChatAnswer
from agentrt.serve.api_keys import Tenant
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_body import HeldBody
from agentrt.serve.request_builder import CompletionRequest
from agentrt.serve.served_model import ServedModel, TenantOf, new_run_id

Json = dict[str, Any]
_DONE = b"data: [DONE]\n\n"
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Completion(Response):
    """Answers one request.

    Args:
        model: Model that is asked.
        body: Body of the request.
        tenant_of: Owner of the request.
    """

    def __init__(self, model: ServedModel, body: HeldBody, tenant_of: TenantOf) -> None:
        self._model = model
        self._body = body
        self._tenant_of = tenant_of
        self._run_id = new_run_id()
        self._has_begun = False
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the answer is sent or the client leaves."""
        failure: RequestRefused | None = None
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                if not self._is_over:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            failure = await self._serve(send)
            tasks.cancel_scope.cancel()
        if failure is not None:
            await self._refuse(failure, send)

    async def _serve(self, send: Send) -> RequestRefused | None:
        """Read the body and run the request; the failure, if it fails."""
        try:
            async with self._model.taking(self._body, self._tenant_of) as (request, tenant):
                return await self._run(request, tenant, send)
        except RequestRefused as refused:
            return refused

    async def _run(
        self, request: CompletionRequest, tenant: Tenant, send: Send
    ) -> RequestRefused | None:
        answer = ChatAnswer(
            f"chatcmpl-{self._run_id}",
            self._model.name,
            self._model.unix_s(),
            request.calls_in,
            self._model.call_frame,
        )

        async def deliver(gen: Gen[str]) -> None:
            if request.stream:
                await self._stream(gen, answer, send, usage=request.wants_usage)
            else:
                await self._whole(gen, answer, send)

        return await self._model.run(request, tenant, self._run_id, deliver)

    async def _whole(self, gen: Gen[str], answer: ChatAnswer, send: Send) -> None:
        """Send the answer in one piece."""
        body = _encoded(answer.whole(await gen, gen.meta))
        await self._begin(200, _whole_json(body), send)
        await self._send(body, send, more=False)

    async def _stream(self, gen: Gen[str], answer: ChatAnswer, send: Send, *, usage: bool) -> None:
        """Send the answer as it comes; a failure before its first text has a status of its own."""
        texts = gen.stream()
        text = await anext(texts, None)
        await self._begin(200, _STREAM, send)
        head = _event(answer.opening())
        while text is not None:
            events = head + b"".join(map(_event, answer.chunks(text)))
            if events:
                await self._send(events, send)
            head, text = b"", await anext(texts, None)
        rest = b"".join(map(_event, answer.closing(gen.meta, usage=usage)))
        await self._send(head + rest + _DONE, send, more=False)

    async def _refuse(self, refused: RequestRefused, send: Send) -> None:
        """Say why there is no answer: by the status, or as the last event of a stream."""
        if self._is_over:
            return
        if self._has_begun:
            await self._send(_event(refused.body()), send, more=False)
            return
        headers = [(name.encode(), value.encode()) for name, value in refused.headers().items()]
        body = refused.encoded()
        await self._begin(refused.status, [*_whole_json(body), *headers], send)
        await self._send(body, send, more=False)

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]], send: Send) -> None:
        self._has_begun = True
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send(self, body: bytes, send: Send, *, more: bool = True) -> None:
        self._is_over = not more
        await send({"type": "http.response.body", "body": body, "more_body": more})


def _whole_json(body: bytes) -> list[tuple[bytes, bytes]]:
    """Headers of a response in one piece; without the length its end is a write of its own."""
    length = str(len(body)).encode()
    return [(b"content-type", b"application/json"), (b"content-length", length)]


def _event(value: Json) -> bytes:
    return b"data: " + _encoded(value) + b"\n\n"


def _encoded(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
