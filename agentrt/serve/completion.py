"""One chat completion over one connection, which ends when its client leaves."""

from __future__ import annotations

import json
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentrt.base.segments import CallFrame
from agentrt.serve.answer import ChatAnswer
from agentrt.serve.dispatch import AnswerPart, OngoingAnswer, Service, failure_of
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import ChatRequest

Json = dict[str, Any]
_DONE = b"data: [DONE]\n\n"
_JSON = [(b"content-type", b"application/json")]
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Completion(Response):
    """Answers one question.

    Args:
        service: Where the engine is.
        question: That was asked.
        frame: How the model writes calls.
        name: The answer's id.
    """

    def __init__(
        self, service: Service, question: ChatRequest, frame: CallFrame, name: str
    ) -> None:
        self._service = service
        self._question = question
        self._frame = frame
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, until it is told or the client leaves."""
        try:
            with self._service.open(self._question) as ongoing:
                async with anyio.create_task_group() as tasks:

                    async def leave() -> None:
                        while (await receive())["type"] != "http.disconnect":
                            pass
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(leave)
                    await (self._stream if self._question.stream else self._tell)(ongoing, send)
                    tasks.cancel_scope.cancel()
        except RequestRefused as refused:
            await _refuse(refused, send)

    async def _tell(self, ongoing: OngoingAnswer, send: Send) -> None:
        """The answer in one piece."""
        part = await ongoing.whole()
        assert part.end is not None
        failure = failure_of(part.end)
        if failure is not None:
            await _refuse(failure, send)
            return
        told = self._answer(ongoing).whole(part.text, part.end)
        await _start(send, 200, _JSON)
        await _send(send, _encoded(told), more=False)

    async def _stream(self, ongoing: OngoingAnswer, send: Send) -> None:
        """The answer as it comes; what fails before its first text is told by the status."""
        part = await ongoing.take()
        failure = failure_of(part.end) if part.end is not None else None
        if failure is not None and not part.text:
            await _refuse(failure, send)
            return
        answer = self._answer(ongoing)
        await _start(send, 200, _STREAM)
        await _send(send, _event(answer.opening()))
        while part.end is None:
            await self._send_text(answer, part, send)
            part = await ongoing.take()
        await self._send_text(answer, part, send)
        failure = failure_of(part.end)
        if failure is not None:
            await _send(send, _event(failure.body()), more=False)
            return
        options = self._question.stream_options
        wants_usage = options is not None and options.include_usage
        rest = [_event(chunk) for chunk in answer.closing(part.end, usage=wants_usage)]
        await _send(send, b"".join(rest) + _DONE, more=False)

    async def _send_text(self, answer: ChatAnswer, part: AnswerPart, send: Send) -> None:
        events = b"".join(_event(chunk) for chunk in answer.chunks(part.text))
        if events:
            await _send(send, events)

    def _answer(self, ongoing: OngoingAnswer) -> ChatAnswer:
        service = self._service
        calls_in = ongoing.asked.calls_in
        return ChatAnswer(self._name, service.model, service.unix_s(), calls_in, self._frame)


async def _refuse(refused: RequestRefused, send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in refused.headers().items()]
    await _start(send, refused.status, [*_JSON, *headers])
    await _send(send, refused.encoded(), more=False)


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _event(value: Json) -> bytes:
    return b"data: " + _encoded(value) + b"\n\n"


def _encoded(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
