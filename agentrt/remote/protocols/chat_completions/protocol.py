"""Chat completions: bodies of requests."""

from __future__ import annotations

from typing import Any

from agentrt.prompt.message_form import function_of
from agentrt.remote.constraints.requested_output import OutputSchema, ToolOffer
from agentrt.remote.protocols.chat_completions.chunks import ChunkReader
from agentrt.remote.protocols.openai_door import OpenAIDoor
from agentrt.remote.protocols.wire_protocol import WireRequest

Json = dict[str, Any]


class ChatCompletions(OpenAIDoor):
    """`/v1/chat/completions` of OpenAI, vLLM, SGLang, llama.cpp and many more."""

    name = "chat_completions"
    path = "/chat/completions"

    def body(self, request: WireRequest) -> Json:
        body: Json = {"model": request.model, "messages": list(request.messages)}
        body |= request.parameters
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools is not None:
            body |= _tools(request.tools)
        if request.schema is not None:
            body |= response_format(request.schema)
        return body | dict(request.own)

    def reader(self) -> ChunkReader:
        return ChunkReader()


def response_format(output: OutputSchema) -> Json:
    """The field for a schema."""
    wanted = {"name": "output", "schema": output.schema, "strict": output.strict}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _tools(offer: ToolOffer) -> Json:
    choice: Any = offer.choice
    if offer.choice == "named":
        choice = {"type": "function", "function": {"name": offer.name}}
    fields: Json = {"tools": _listed(offer), "tool_choice": choice}
    return fields | ({} if offer.parallel is None else {"parallel_tool_calls": offer.parallel})


def _listed(offer: ToolOffer) -> list[Json]:
    held = {"strict": True} if offer.strict else {}
    return [{"type": "function", "function": function_of(tool) | held} for tool in offer.tools]
