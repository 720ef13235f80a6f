"""Routes of the protocols beside chat completions: strict rules, then the same engine."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrt.base.engines import RemoteEngineConfig
from agentrt.base.errors import AgentrtError
from tests.remote import message_front, response_front, strict_messages, strict_responses

Json = dict[str, Any]
Answering = Callable[[Json], AsyncIterator[Json]]
KEY = "sk-of-a-front"
FRONTS = {"tiny-messages": ("anthropic", ""), "tiny-responses": ("openai", "responses")}
"""Kind and protocol of each model of `server` that does not speak chat completions."""


def front_engine(address: str, model: str) -> RemoteEngineConfig:
    """Settings of such a model, whose key is in `FRONT_KEY`."""
    kind, protocol = FRONTS[model]
    return RemoteEngineConfig(
        kind=kind, protocol=protocol, address=address, model=model, key="env:FRONT_KEY"
    )


def front_routes(answering: Answering, seen: list[Json]) -> list[Route]:
    """The routes.

    Args:
        answering: Gives the chunks of chat completions for a body of chat completions.
        seen: Takes the requests.
    """

    async def messages(request: Request) -> Response:
        body = await request.json()
        seen.append({"body": body, "headers": dict(request.headers)})
        try:
            strict_messages.check(body, request.headers, KEY)
        except strict_messages.Refusal as refusal:
            error = {"type": refusal.kind, "message": str(refusal)}
            return JSONResponse({"type": "error", "error": error}, refusal.status)
        writer = message_front.MessageWriter(body["model"])
        return streamed(answering(message_front.chat_body(body)), writer)

    async def responses(request: Request) -> Response:
        body = await request.json()
        seen.append({"body": body, "headers": dict(request.headers)})
        for fault in strict_responses.faults(body):
            return JSONResponse({"error": {"message": fault, "type": "invalid_request_error"}}, 400)
        writer = response_front.ResponseWriter(body["model"])
        return streamed(answering(response_front.chat_body(body)), writer)

    return [
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
    ]


def streamed(
    chunks: AsyncIterator[Json],
    writer: message_front.MessageWriter | response_front.ResponseWriter,
) -> StreamingResponse:
    """The chunks as events of a protocol."""

    async def events() -> AsyncIterator[str]:
        for event in writer.opening():
            yield sse(event)
        try:
            async for chunk in chunks:
                for event in writer.of(chunk):
                    yield sse(event)
        except AgentrtError as error:
            yield sse(writer.error(str(error)))

    return StreamingResponse(events(), media_type="text/event-stream")


def sse(event: Json) -> str:
    """An event with its name, as both APIs send it."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
