"""A real OpenAI-compatible server over a real model, as a process of its own.

`python -m tests.remote.server MODEL_DIR` loads the model, binds a free port of the loopback, prints
it, and serves. What it enforces: `response_format` json_schema, vLLM's `structured_outputs`
(choice, regex, grammar), and tools with `tool_choice: required`. It reports usage and vLLM's
`metrics`. It takes prompts as token ids too; see `id_front`.

One model, several faces, so that one process shows what servers do in practice:
- `tiny`       all of the above
- `tiny-plain` takes those fields and ignores them, as many servers do
- `tiny-cut`   drops the connection in the middle of a long answer
- `tiny-busy`  answers 429 to every request the first time
- `tiny-sick`  sends an error in the middle of a long answer
- `tiny-locked` wants a key, and repeats a wrong one in its error
- `tiny-openai` takes what OpenAI documents, and refuses anything else; see `strict_rules`
- `tiny-azure` the same without lengths and ranges, as a model that reasons
- `tiny-tools` takes tools, and no `response_format`
- `tiny-messages` speaks Anthropic Messages, and takes what is documented; see `strict_messages`
- `tiny-responses` speaks OpenAI Responses, and takes what is documented; see `strict_responses`
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import AgentrtError, revive
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import (
    CallMade,
    Close,
    Open,
    ResultOf,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import BackendDown, Delta, End
from agentrt.structured import CallScanner
from tests.remote import strict_rules
from tests.remote.fronts import front_routes
from tests.remote.id_front import id_routes

Json = dict[str, Any]
FACES = ("tiny", "tiny-plain", "tiny-cut", "tiny-busy", "tiny-sick", "tiny-locked")
HOSTED = ("tiny-openai", "tiny-azure", "tiny-tools")
KEY = "sk-let-me-in"
CUT_AFTER = 3
LONG_TOKENS = 100


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Serving:
    """The engine, and where each request's events go."""

    def __init__(self, model: Path) -> None:
        config = EngineConfig(model, kv_pages=1024, threads=1, random_weights=True)
        self.backend = EmbeddedBackend(config, MonotonicClock(), place="thread")
        self.codec = Codec.load(model)
        self.inboxes: dict[int, asyncio.Queue[Delta | End]] = {}
        self.cancelled: list[int] = []
        self.asked = 0
        self.seen: list[Json] = []

    async def deliver(self) -> None:
        async for event in self.backend.events():
            assert not isinstance(event, BackendDown)
            parts: list[Delta | End] = [*event.deltas, *event.ends]
            for part in parts:
                if part.request_id in self.inboxes:
                    self.inboxes[part.request_id].put_nowait(part)

    async def answer(self, body: Json) -> AsyncIterator[Delta | End]:
        """The events of one generation of a chat."""
        async for part in self.answer_to(self.request(RequestId(0), body)):
            yield part

    async def answer_to(self, request: GenerateRequest) -> AsyncIterator[Delta | End]:
        """The events of one generation; leaving early cancels it."""
        self.asked += 1
        number = RequestId(self.asked)
        request = replace(request, request_id=number)
        self.inboxes[number] = asyncio.Queue()
        self.backend.submit(request)
        ended = False
        try:
            while not ended:
                part = await self.inboxes[number].get()
                ended = isinstance(part, End)
                yield part
        finally:
            del self.inboxes[number]
            if not ended:
                self.backend.cancel(number, "the client left")
                self.cancelled.append(number)

    def request(self, number: RequestId, body: Json) -> GenerateRequest:
        plain = body["model"] == "tiny-plain"
        tools = tuple(tool_of(tool) for tool in body.get("tools") or ())
        encoded = self.codec.encode(tools, tuple(segments_of(body["messages"])))
        spec = None if plain else constraint_of(body, tools)
        known = ("temperature", "top_p", "top_k", "min_p", "seed", "repetition_penalty")
        given = {key: body[key] for key in known if key in body}
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 64
        return GenerateRequest(
            request_id=number,
            run_id=RunId("0" * 16),
            node_id=NodeId("served"),
            site="",
            prompt=TokenPrompt(encoded.token_ids),
            sampling=SamplingParams(max_tokens=limit, stop=tuple(body.get("stop") or ()), **given),
            constraint=spec,
            keep_special=spec is not None and spec.kind == "calls",
            cache_salt=body.get("cache_salt", ""),
        )


def tool_of(tool: Json) -> ToolSchema:
    function = tool["function"]
    return ToolSchema(function["name"], function.get("description", ""), function["parameters"])


def segments_of(messages: list[Json]) -> list[Segment]:
    found: list[Segment] = []
    for message in messages:
        found.append(Open(message["role"]))
        if message["role"] == "tool":
            found.append(ResultOf(message["tool_call_id"], message.get("name", "")))
        if message.get("content"):
            found.append(Text(message["content"]))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            found.append(CallMade(call["id"], function["name"], function["arguments"]))
        found.append(Close())
    return found


def constraint_of(body: Json, tools: tuple[ToolSchema, ...]) -> ConstraintSpec | None:
    if isinstance(body.get("tool_choice"), dict):
        chosen = body["tool_choice"]["function"]["name"]
        named = tuple(tool for tool in tools if tool.name == chosen)
        return ConstraintSpec("calls", tools=named, max_calls=1, is_raw=True)
    if body.get("tool_choice") == "required":
        most = 8 if body.get("parallel_tool_calls", True) else 1
        return ConstraintSpec("calls", tools=tools, max_calls=most)
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        schema = wanted["json_schema"]["schema"]
        return ConstraintSpec("json", json.dumps(schema, separators=(",", ":")))
    structured = body.get("structured_outputs") or {}
    kinds: tuple[ConstraintKind, ...] = ("regex", "grammar")
    for kind in kinds:
        if kind in structured:
            return ConstraintSpec(kind, structured[kind])
    if "choice" in structured:
        return ConstraintSpec("choice", options=tuple(structured["choice"]))
    return None


class Chunks:
    """Events of the engine as chunks of the API; calls leave the text and become deltas."""

    def __init__(self, serving: Serving, body: Json) -> None:
        self.body = body
        self.scanner: CallScanner | None = None
        is_called = body.get("tool_choice") not in (None, "none", "auto")
        if is_called and body["model"] != "tiny-plain":
            self.scanner = CallScanner(serving.codec.call_frame)
        self.calls = 0

    def of(self, part: Delta | End) -> list[Json]:
        if isinstance(part, Delta):
            return self.delta(part.text)
        ledger = part.ledger
        if part.error is not None:
            raise revive(part.error)
        reason = "tool_calls" if self.calls else part.reason
        last = self.chunk({}, reason, part.stopped_by or None)
        usage = {
            "prompt_tokens": ledger.prompt_tokens,
            "completion_tokens": ledger.output_tokens,
            "prompt_tokens_details": {"cached_tokens": ledger.cached_tokens},
        }
        metrics = {
            "queue_time_ms": ledger.queue_s * 1e3,
            "time_to_first_token_ms": ledger.prefill_s * 1e3,
            "generation_time_ms": (ledger.decode_s + ledger.constraint_s) * 1e3,
        }
        return [last, {"choices": [], "usage": usage, "metrics": metrics}]

    def delta(self, text: str) -> list[Json]:
        if self.scanner is None:
            return [self.chunk({"content": text})] if text else []
        chunks = []
        for call in self.scanner.feed_text(text):
            index, half = self.calls, len(call.arguments_json) // 2
            self.calls += 1
            head, tail = call.arguments_json[:half], call.arguments_json[half:]
            first = {"index": index, "id": f"call_{index}", "type": "function"}
            first["function"] = {"name": call.name, "arguments": head}
            chunks.append(self.chunk({"tool_calls": [first]}))
            rest = {"index": index, "function": {"arguments": tail}}
            chunks.append(self.chunk({"tool_calls": [rest]}))
        return chunks

    def chunk(self, delta: Json, reason: str | None = None, stop: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "stop_reason": stop}
        names = {"id": "chatcmpl-1", "model": self.body["model"]}
        return {"object": "chat.completion.chunk", **names, "choices": [choice]}


def sse(value: Json) -> str:
    return f"data: {json.dumps(value)}\n\n"


async def chunks_of(serving: Serving, body: Json) -> AsyncIterator[Json]:
    """The chunks of an answer."""
    chunks = Chunks(serving, body)
    async for part in serving.answer(body):
        for chunk in chunks.of(part):
            yield chunk


async def stream(serving: Serving, body: Json) -> AsyncIterator[str]:
    chunks, sent = Chunks(serving, body), 0
    face = body["model"] if body.get("max_tokens", 0) > LONG_TOKENS else ""
    try:
        async for part in serving.answer(body):
            for chunk in chunks.of(part):
                yield sse(chunk)
                sent += 1
                if sent == CUT_AFTER and face == "tiny-cut":
                    raise ConnectionResetError("cut on purpose")
                if sent == CUT_AFTER and face == "tiny-sick":
                    yield sse({"error": {"message": "the GPU fell over", "code": 500}})
                    return
        yield "data: [DONE]\n\n"
    except AgentrtError as error:
        yield sse({"error": {"message": str(error), "code": 400}})


def refuse(serving: Serving, request: Request, body: Json) -> None:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if body["model"] == "tiny-locked" and given != KEY:
        raise Refused(401, f"Incorrect API key provided: {given}")
    if body["model"] in HOSTED:
        wrong = strict_rules.refusal(
            body, bounds=body["model"] != "tiny-azure", reasons=body["model"] == "tiny-azure"
        )
        if body["model"] == "tiny-tools" and "response_format" in body:
            wrong = "response_format is not supported"
        if wrong is not None:
            raise Refused(400, wrong)
    elif body["model"] not in FACES:
        raise Refused(404, f"The model `{body['model']}` does not exist.")
    if body["model"] == "tiny-busy" and [one["body"] for one in serving.seen].count(body) == 1:
        raise Refused(429, "Too many requests")
    length = len(serving.request(RequestId(0), body).prompt.token_ids)  # type: ignore[union-attr]
    if length >= serving.codec.window_tokens:
        window = serving.codec.window_tokens
        raise Refused(400, f"This model's maximum context length is {window} tokens, not {length}.")


def application(serving: Serving) -> Starlette:
    async def models(request: Request) -> Response:
        listed = [
            {"id": face, "object": "model", "owned_by": "agentrt", "max_model_len": 4096}
            for face in FACES
        ]
        listed += [{"id": face, "object": "model", "owned_by": "system"} for face in HOSTED]
        return JSONResponse({"object": "list", "data": listed})

    async def chat(request: Request) -> Response:
        body = await request.json()
        serving.seen.append({"body": body, "headers": dict(request.headers)})
        try:
            refuse(serving, request, body)
        except (Refused, AgentrtError) as error:
            status = error.status if isinstance(error, Refused) else 400
            return JSONResponse({"error": {"message": str(error), "code": status}}, status)
        return StreamingResponse(stream(serving, body), media_type="text/event-stream")

    async def seen(request: Request) -> Response:
        """What the server saw, for the tests to ask."""
        return JSONResponse({"requests": serving.seen, "cancelled": serving.cancelled})

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/seen", seen),
            *id_routes(serving),
            *front_routes(lambda body: chunks_of(serving, body), serving.seen),
        ]
    )


async def main(model: Path) -> None:
    serving = Serving(model)
    await serving.backend.start()
    delivering = asyncio.create_task(serving.deliver())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the product's server
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(application(serving), log_level="warning", lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listener])
    delivering.cancel()
    await serving.backend.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
