"""Events of a streamed response as parts of an answer (streaming)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentrt.remote.protocols.answer_parts import (
    AnswerPart,
    CallPart,
    ContentPart,
    EndPart,
    ErrorPart,
    ReasoningPart,
    RefusalPart,
    UsagePart,
    error_part,
    name_part,
)
from agentrt.remote.protocols.answer_shape import check_type, count_at, object_at, text_of

Json = dict[str, Any]

BETWEEN_SUMMARIES = "\n\n"
_SERVER_ERRORS = ("server_error", "rate_limit_exceeded", "vector_store_timeout")


class ResponseEvents:
    """Reader of the events of one response."""

    def __init__(self) -> None:
        self.ended = False

    def parts(self, event: Json) -> list[AnswerPart]:
        check_type(event, "delta", str)
        check_type(event, "output_index", int)
        delta, index = event.get("delta") or "", event.get("output_index")
        match event.get("type"):
            case "response.created":
                return [name_part(object_at(event, "response"))]
            case "response.output_text.delta":
                return [ContentPart(delta)]
            case "response.refusal.delta":
                return [RefusalPart(delta)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ReasoningPart(delta)]
            case "response.reasoning_summary_part.added" if count_at(event, "summary_index"):
                return [ReasoningPart(BETWEEN_SUMMARIES)]
            case "response.output_item.added":
                return [*_begun(index, object_at(event, "item"))]
            case "response.function_call_arguments.delta":
                return [CallPart(index, arguments=delta)]
            case "response.completed" | "response.incomplete" | "response.failed":
                self.ended = True
                return [*_end(object_at(event, "response"))]
            case "error":
                return [_error(event.get("error") or event)]
        return []  # what repeats the deltas as a whole, and events that are yet to come


def _begun(index: int | None, item: Json) -> Iterator[AnswerPart]:
    """The beginning of an item of the output."""
    if item.get("type") == "function_call":
        for name in ("call_id", "name", "arguments"):
            check_type(item, name, str)
        given = (item.get(name) or "" for name in ("call_id", "name", "arguments"))
        yield CallPart(index, *given)


def _end(response: Json) -> Iterator[AnswerPart]:
    if usage := object_at(response, "usage"):
        in_prompt = object_at(usage, "input_tokens_details")
        in_output = object_at(usage, "output_tokens_details")
        yield UsagePart(
            count_at(usage, "input_tokens"),
            count_at(in_prompt, "cached_tokens"),
            count_at(usage, "output_tokens"),
            count_at(in_output, "reasoning_tokens"),
        )
    match response.get("status"):
        case "failed":
            yield _error(response.get("error") or "it says no more")
        case "incomplete":
            reason = object_at(response, "incomplete_details").get("reason")
            yield EndPart("filtered" if reason == "content_filter" else "length")
        case _:
            yield EndPart("stop")


def _error(error: Any) -> ErrorPart:
    code = text_of(error.get("code")) if isinstance(error, dict) else ""
    return error_part(error, is_of_server=code in _SERVER_ERRORS)
