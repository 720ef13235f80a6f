"""OpenAI Responses: bodies of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrt.base.errors import Unsupported
from agentrt.base.segments import ToolSchema
from agentrt.prompt.message_form import function_of
from agentrt.remote.constraints.requested_output import OutputSchema, ToolOffer
from agentrt.remote.protocols.openai_door import OpenAIDoor
from agentrt.remote.protocols.responses.events import ResponseEvents
from agentrt.remote.protocols.wire_protocol import WireRequest

Json = dict[str, Any]

LEAST_OUTPUT_TOKENS = 16


class Responses(OpenAIDoor):
    """`/v1/responses`: a list of items in place of messages. Nothing is stored at the server."""

    name = "responses"
    path = "/responses"

    def body(self, request: WireRequest) -> Json:
        given = request.parameters["max_output_tokens"]
        if given < LEAST_OUTPUT_TOKENS:
            raise Unsupported(
                f"max_tokens={given} is less than the protocol 'responses' takes",
                hint=f"Give {LEAST_OUTPUT_TOKENS} or more",
            )
        first, *rest = request.messages
        has_instructions = first["role"] == "system" and bool(rest)
        said = rest if has_instructions else request.messages
        body: Json = {
            "model": request.model,
            "input": [item for message in said for item in _items(message)],
            **request.parameters,
        }
        if has_instructions:
            body["instructions"] = first["content"]
        if request.tools is not None:
            body |= _tools(request.tools)
        if request.schema is not None:
            body["text"] = {"format": _format(request.schema)}
        return body | {"stream": True, "store": False, **request.own}

    def reader(self) -> ResponseEvents:
        return ResponseEvents()


def _items(message: Mapping[str, Any]) -> Iterator[Json]:
    """The items of one message: its text, and each of its calls."""
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        yield {"type": "function_call_output", **output}
        return
    calls = message.get("tool_calls", ())
    if message["content"] or not calls:
        yield {"role": message["role"], "content": message["content"]}
    for call in calls:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _format(output: OutputSchema) -> Json:
    wanted = {"name": "output", "schema": output.schema, "strict": output.strict}
    return {"type": "json_schema", **wanted}


def _tools(offer: ToolOffer) -> Json:
    choice: Any = offer.choice
    if offer.choice == "named":
        choice = {"type": "function", "name": offer.name}
    fields: Json = {"tools": _listed(offer.tools), "tool_choice": choice}
    return fields | ({} if offer.parallel is None else {"parallel_tool_calls": offer.parallel})


def _listed(tools: Sequence[ToolSchema]) -> list[Json]:
    """The tools; without `strict` their parameters would have to be in the strict subset."""
    return [{"type": "function", **function_of(tool), "strict": False} for tool in tools]
