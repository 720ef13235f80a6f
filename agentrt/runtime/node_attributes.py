"""Attributes of a node's span that are known when it is declared, by their OpenTelemetry names."""

from __future__ import annotations

from typing import Any

from agentrt.program import GenerateWork, ToolWork
from agentrt.protocol.events import AttributeValue


def generation_attributes(work: GenerateWork[Any]) -> dict[str, AttributeValue]:
    """Attributes of a generation."""
    output, sampling = work.output, work.sampling
    attributes: dict[str, AttributeValue] = {
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.seed": sampling.seed,
        "agentrt.output.type": output.name,
    }
    if sampling.top_p != 1.0:
        attributes["gen_ai.request.top_p"] = sampling.top_p
    if sampling.top_k:
        attributes["gen_ai.request.top_k"] = sampling.top_k
    if output.constraint is not None:
        attributes["agentrt.constraint.kind"] = output.constraint.kind
    if work.thinking_tokens is not None:
        attributes["agentrt.thinking.max_tokens"] = work.thinking_tokens
    if work.scored:
        attributes["agentrt.choice.scored"] = True
    if output.checked:
        attributes["agentrt.check.retries"] = work.retries
    return attributes


def tool_attributes(work: ToolWork) -> dict[str, AttributeValue]:
    """Attributes of a tool call."""
    spec = work.spec
    attributes: dict[str, AttributeValue] = {
        "gen_ai.tool.name": spec.name,
        "gen_ai.tool.description": spec.description,
        "agentrt.tool.effects": spec.effects,
    }
    if spec.stable_for_s is not None:
        attributes["agentrt.tool.stable_for_s"] = spec.stable_for_s
    if work.call is not None:
        attributes["gen_ai.tool.call.id"] = work.call.call_id
    return attributes
