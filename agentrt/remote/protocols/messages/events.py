"""Events of a streamed message as parts of an answer (streaming)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentrt.remote.protocols.answer_parts import (
    AnswerPart,
    CallPart,
    ContentPart,
    EndPart,
    ReasoningPart,
    UsagePart,
    error_part,
    name_part,
)
from agentrt.remote.protocols.answer_shape import check_type, count_at, object_at, text_of

Json = dict[str, Any]

_COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)
_CUT = ("max_tokens", "model_context_window_exceeded")
_SERVER_ERRORS = ("api_error", "overloaded_error", "rate_limit_error", "timeout_error")


class MessageEvents:
    """Reader of the events of one message."""

    def __init__(self) -> None:
        self.ended = False
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._thinking_tokens = 0

    def parts(self, event: Json) -> list[AnswerPart]:
        match event.get("type"):
            case "message_start":
                message = object_at(event, "message")
                return [name_part(message), self._usage(object_at(message, "usage"))]
            case "content_block_start":
                return [*_begun(_index(event), object_at(event, "content_block"))]
            case "content_block_delta":
                return [*_more(_index(event), object_at(event, "delta"))]
            case "message_delta":
                usage = self._usage(object_at(event, "usage"))
                return [usage, *_end(object_at(event, "delta"))]
            case "message_stop":
                self.ended = True
            case "error":
                error = event.get("error")
                kind = error.get("type") if isinstance(error, dict) else ""
                return [error_part(error, is_of_server=kind in _SERVER_ERRORS)]
        return []  # pings, ends of blocks, and events that are yet to come

    def _usage(self, usage: Json) -> UsagePart:
        """The counts so far; each report replaces those that it has."""
        for name in _COUNTS:
            self._counts[name] = count_at(usage, name) or self._counts[name]
        details = object_at(usage, "output_tokens_details")
        self._thinking_tokens = count_at(details, "thinking_tokens") or self._thinking_tokens
        plain, written, cached, output = (self._counts[name] for name in _COUNTS)
        return UsagePart(plain + written + cached, cached, output, self._thinking_tokens)


def _index(event: Json) -> int | None:
    check_type(event, "index", int)
    return event.get("index")


def _begun(index: int | None, block: Json) -> Iterator[AnswerPart]:
    """The beginning of a content block, which is mostly still empty."""
    for name in ("text", "thinking", "id", "name"):
        check_type(block, name, str)
    match block.get("type"):
        case "tool_use":
            given = object_at(block, "input")
            arguments = json.dumps(given, separators=(",", ":")) if given else ""
            yield CallPart(index, text_of(block.get("id")), text_of(block.get("name")), arguments)
        case "text" if text := block.get("text"):
            yield ContentPart(text)
        case "thinking" if thought := block.get("thinking"):
            yield ReasoningPart(thought)


def _more(index: int | None, delta: Json) -> Iterator[AnswerPart]:
    """More of a content block; signatures of reasoning are no part of an answer."""
    for name in ("text", "thinking", "partial_json"):
        check_type(delta, name, str)
    match delta.get("type"):
        case "text_delta":
            yield ContentPart(delta.get("text") or "")
        case "thinking_delta":
            yield ReasoningPart(delta.get("thinking") or "")
        case "input_json_delta":
            yield CallPart(index, arguments=delta.get("partial_json") or "")


def _end(delta: Json) -> Iterator[AnswerPart]:
    check_type(delta, "stop_reason", str)
    check_type(delta, "stop_sequence", str)
    reason = delta.get("stop_reason")
    stopped_by = delta.get("stop_sequence") or ""
    if reason == "refusal":
        why = object_at(delta, "stop_details").get("explanation")
        yield EndPart("filtered", why=" ".join(text_of(why).split())[:200])
    elif reason in _CUT:
        yield EndPart("length", stopped_by)
    elif reason:
        yield EndPart("stop", stopped_by)
