"""Completions of prompts that are token ids: bodies of requests."""

from __future__ import annotations

from typing import Any

from agentrt.remote.protocols.chat_completions.protocol import response_format
from agentrt.remote.protocols.completions.chunks import CompletionReader
from agentrt.remote.protocols.openai_door import OpenAIDoor
from agentrt.remote.protocols.wire_protocol import WireRequest

Json = dict[str, Any]


class Completions(OpenAIDoor):
    """`/v1/completions` of vLLM, SGLang and agentrt, which return the ids of what they write."""

    name = "completions"
    path = "/completions"

    def body(self, request: WireRequest) -> Json:
        body: Json = {"model": request.model, "prompt": list(request.token_ids)}
        body |= request.parameters
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.schema is not None:
            body |= response_format(request.schema)
        return body | dict(request.own)

    def reader(self) -> CompletionReader:
        return CompletionReader()
