"""One completion over one connection, which ends when its client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio

from agentrt.program import Gen
from agentrt.serve.answer import ChatAnswer
from agentrt.serve.answer_logprobs import LogprobForm, NewTokens
from agentrt.serve.asgi import (
    Headers,
    Receive,
    Send,
    response_body,
    response_start,
    send_refusal,
    whole_json,
)
from agentrt.serve.body_routes import BodyRoute
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_body import HeldBody
from agentrt.serve.request_builder import CompletionRequest
from agentrt.serve.served_model import Place, ServedModel, TenantOf, new_run_id
from agentrt.serve.text_answer import TextAnswer

Json = dict[str, Any]
_DONE = b"data: [DONE]\n\n"
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Completion:
    """Answers one request.

    Args:
        route: Route of the request.
        model: Model that is asked.
        body: Body of the request.
        tenant_of: Tenant of the request.
        send: Sends the answer.
    """

    def __init__(
        self,
        route: BodyRoute,
        model: ServedModel,
        body: HeldBody,
        tenant_of: TenantOf,
        send: Send,
    ) -> None:
        self._route: BodyRoute = route
        self._model = model
        self._body = body
        self._tenant_of = tenant_of
        self._scope = anyio.CancelScope()
        self._send_event = send
        self._run_id = new_run_id()
        self._place: Place | None = None
        self._has_begun = False
        self._is_over = False
        self._wants_usage = False

    async def serve(self, receive: Receive) -> None:
        """Serve until the answer is sent or the client leaves."""
        try:
            watch = asyncio.create_task(self._watch(receive))
            try:
                failure = await self._failure()
            finally:
                watch.cancel()
                if self._place is not None:
                    self._model.leave(self._place)
            if failure is not None:
                raise failure
        except RequestRefused as refused:
            await self._refuse(refused)

    async def _watch(self, receive: Receive) -> None:
        """Give the request up if its client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._is_over:
            self._scope.cancel()

    async def _failure(self) -> RequestRefused | None:
        """Read the request and run it in its turn; why it was not answered, if it was not."""
        failure: RequestRefused | None = None
        with self._scope:
            request = await self._model.read(self._route, self._body, self._tenant_of)
            place = self._place = self._model.enter(
                self._tenant_of(request.terms.user), self._scope
            )
            answer = self._answer_to(request, place)
            await self._model.turn_of(place, request.terms.priority)
            self._wants_usage = request.terms.wants_usage
            deliver = self._stream if request.terms.stream else self._whole
            deliver_answer = partial(deliver, answer)
            failure = await self._model.run(
                self._route, request, place, self._run_id, deliver_answer
            )
        if self._scope.cancelled_caught:
            return self._place.refusal if self._place is not None else None
        return failure

    def _answer_to(self, request: CompletionRequest, place: Place) -> ChatAnswer | TextAnswer:
        """The answer in the form of the route.

        Raises:
            RequestRefused: Ids or log-probabilities are wanted, and the engine takes messages.
        """
        created, terms = self._model.unix_s(), request.terms
        name = terms.model or self._model.name
        ids = self._model.prompt_ids(request, place.tenant) if terms.wants_ids else None
        logprobs = None
        if terms.alternatives is not None:
            codec = self._model.codec()
            logprobs = LogprobForm(codec, terms.alternatives, names_ids=terms.names_ids)
        if self._route == "text":
            return TextAnswer(f"cmpl-{self._run_id}", name, created, ids, logprobs)
        return ChatAnswer(
            f"chatcmpl-{self._run_id}",
            name,
            created,
            request.calls_in,
            self._model.call_frame,
            request.chat.tools,
            ids,
            logprobs,
        )

    async def _whole(
        self,
        answer: ChatAnswer | TextAnswer,
        gen: Gen[str],
        text: str | None,
        texts: AsyncIterator[str],
    ) -> None:
        """Send the answer in one piece."""
        body = _encoded(answer.whole(await gen, gen.meta, _tokens_behind(gen, 0)))
        await self._begin(200, whole_json(body))
        await self._send(body, more=False)

    async def _stream(
        self,
        answer: ChatAnswer | TextAnswer,
        gen: Gen[str],
        text: str | None,
        texts: AsyncIterator[str],
    ) -> None:
        """Send the answer as it comes; a failure before its first text has a status of its own."""
        await self._begin(200, _STREAM)
        told_tokens = 0
        events = answer.opening()
        while text is not None:
            tokens = _tokens_behind(gen, told_tokens)
            told_tokens += len(tokens.ids)
            events += answer.chunks(text, tokens)
            if events:
                await self._send(b"".join(map(_event, events)))
            events, text = [], await anext(texts, None)
        rest = _tokens_behind(gen, told_tokens)
        events += answer.closing(gen.meta, rest, usage=self._wants_usage)
        await self._send(b"".join(map(_event, events)) + _DONE, more=False)

    async def _refuse(self, refused: RequestRefused) -> None:
        """Say why there is no answer: by the status, or as the last event of a stream."""
        if self._is_over:
            return
        if self._has_begun:
            await self._send(_event(refused.body()), more=False)
        else:
            await send_refusal(refused, self._send_event)

    async def _begin(self, status: int, headers: Headers) -> None:
        self._has_begun = True
        await self._send_event(response_start(status, headers))

    async def _send(self, body: bytes, *, more: bool = True) -> None:
        self._is_over = not more
        if self._is_over and self._place is not None:  # the client may ask again at once
            self._model.leave(self._place)
        await self._send_event(response_body(body, more=more))


def _tokens_behind(gen: Gen[str], count: int) -> NewTokens:
    """The tokens of an output behind the first `count`, and the scores of options if known."""
    return NewTokens(tuple(gen.output_ids[count:]), tuple(gen.logprobs[count:]), gen.scores)


def _event(value: Json) -> bytes:
    return b"data: " + _encoded(value) + b"\n\n"


def _encoded(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
