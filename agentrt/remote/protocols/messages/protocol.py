"""Anthropic Messages: bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.base.errors import Unsupported
from agentrt.base.segments import ToolSchema
from agentrt.remote.constraints.requested_output import ToolOffer
from agentrt.remote.protocols.messages.events import MessageEvents
from agentrt.remote.protocols.messages.turns import Json, Turns, turns_of
from agentrt.remote.protocols.wire_protocol import WireRequest

LEAST_THINKING_TOKENS = 1024

_CHOICES = {"none": "none", "auto": "auto", "required": "any", "named": "tool"}
_OPEN = {"type": "object"}


class Messages:
    """`/v1/messages`: system text apart, turns that alternate, `max_tokens` in each request."""

    name = "messages"
    path = "/messages"
    models_path = "/models?limit=1000"  # a page has 20 without it
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    account_headers: Mapping[str, str] = {}
    takes_loose_schemas = False
    thinks = True

    def key_header(self, key: str) -> tuple[str, str]:
        return "x-api-key", key

    def body(self, request: WireRequest) -> Json:
        turns = turns_of(request.messages)
        body: Json = {"model": request.model, "messages": turns.turns, **request.parameters}
        if turns.system:
            body["system"] = turns.system
        if request.thinking_tokens is not None:
            body["thinking"] = _thinking(request.thinking_tokens, turns)
        offer = request.tools or _of_history(turns)
        if offer is not None:
            body |= _tools(offer)
        if request.schema is not None:
            wanted = {"type": "json_schema", "schema": request.schema.schema}
            body["output_config"] = {"format": wanted}
        return body | {"stream": True, **request.own}

    def reader(self) -> MessageEvents:
        return MessageEvents()


def _thinking(tokens: int, turns: Turns) -> Json:
    if not tokens:
        return {"type": "disabled"}
    if tokens < LEAST_THINKING_TOKENS:
        raise Unsupported(
            f"thinking={tokens} is less than the protocol 'messages' takes",
            hint=f"Give {LEAST_THINKING_TOKENS} or more, or 0 for none",
        )
    if turns.ends_with_results:
        # A turn that began without reasoning cannot go on with it, and signatures are not kept.
        raise Unsupported(
            "the protocol 'messages' takes no thinking budget behind the results of tools",
            hint="Leave thinking out of this generation",
        )
    return {"type": "enabled", "budget_tokens": tokens}


def _tools(offer: ToolOffer) -> Json:
    choice: Json = {"type": _CHOICES[offer.choice]}
    if offer.choice == "named":
        choice["name"] = offer.name
    if offer.parallel is False or offer.choice == "named":
        choice["disable_parallel_tool_use"] = True
    return {"tools": _listed(offer.tools), "tool_choice": choice}


def _listed(tools: Sequence[ToolSchema]) -> list[Json]:
    listed: list[Json] = []
    for tool in tools:
        words = {"description": tool.description} if tool.description else {}
        parameters: Any = tool.parameters
        listed.append({"name": tool.name, **words, "input_schema": parameters})
    return listed


def _of_history(turns: Turns) -> ToolOffer | None:
    """The tools that the chat has called: calls may only stand beside a list of tools."""
    if not turns.called:
        return None
    return ToolOffer(tuple(ToolSchema(name, "", _OPEN) for name in turns.called), "none")
