"""Chunks of a streamed chat completion as parts of an answer (streaming)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentrt.remote.protocols.answer_parts import (
    AnswerPart,
    CallPart,
    ContentPart,
    EndPart,
    ErrorPart,
    ReasoningPart,
    RefusalPart,
    TimesPart,
    UsagePart,
    error_part,
    name_part,
)
from agentrt.remote.protocols.answer_shape import (
    MAX_COUNT,
    Malformed,
    check_type,
    count_at,
    object_at,
    objects_at,
    text_of,
)

Json = dict[str, Any]

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_SERVER_ERRORS = ("servererror", "internalservererror", "serviceunavailableerror")


class ChunkReader:
    """Reader of the chunks of one completion."""

    def __init__(self) -> None:
        self.ended = False  # `[DONE]` ends it, which is no event
        self._is_named = False
        self._usage: Json = {}
        self._cached_tokens = 0

    def parts(self, event: Json) -> list[AnswerPart]:
        if error := event.get("error"):
            return [_error(error)]
        found: list[AnswerPart] = [*self._figures(event)]
        if not self._is_named and "id" in event:
            self._is_named = True
            found.append(name_part(event))
        for choice in objects_at(event, "choices"):
            found += self.choice_parts(choice)
        return found

    def choice_parts(self, choice: Json) -> Iterator[AnswerPart]:
        """The parts of the answer in one choice."""
        return _choice_parts(choice)

    def _figures(self, chunk: Json) -> Iterator[AnswerPart]:
        """Usage and times; llama.cpp reports the tokens from its cache among the times."""
        usage = object_at(chunk, "usage")
        timings = object_at(chunk, "timings") or object_at(chunk, "metrics")
        self._usage = usage or self._usage
        self._cached_tokens = count_at(timings, "cache_n") or self._cached_tokens
        if usage or (timings and self._usage):
            in_prompt = object_at(self._usage, "prompt_tokens_details")
            in_output = object_at(self._usage, "completion_tokens_details")
            yield UsagePart(
                count_at(self._usage, "prompt_tokens"),
                count_at(in_prompt, "cached_tokens") or self._cached_tokens,
                count_at(self._usage, "completion_tokens"),
                count_at(in_output, "reasoning_tokens"),
            )
        if times := _times(timings):
            yield times


def _choice_parts(choice: Json) -> Iterator[AnswerPart]:
    delta = object_at(choice, "delta")
    for name in _TEXTS:
        check_type(delta, name, str)
    if thought := delta.get("reasoning_content") or delta.get("reasoning"):
        yield ReasoningPart(thought)
    if refusal := delta.get("refusal"):
        yield RefusalPart(refusal)
    if content := delta.get("content"):
        yield ContentPart(content)
    for call in objects_at(delta, "tool_calls"):
        yield _call(call)
    yield from end_of(choice)


def end_of(choice: Json) -> Iterator[AnswerPart]:
    """The end of the answer, if this choice has it."""
    check_type(choice, "finish_reason", str)
    if reason := choice.get("finish_reason"):
        stopped_by = text_of(choice.get("stop_reason") or choice.get("matched_stop"))
        match reason:
            case "length":
                yield EndPart("length", stopped_by)
            case "content_filter":
                yield EndPart("filtered", stopped_by)
            case _:
                yield EndPart("stop", stopped_by)


def _call(call: Json) -> CallPart:
    check_type(call, "index", int)
    check_type(call, "id", str)
    function = object_at(call, "function")
    check_type(function, "name", str)
    arguments = _arguments(function.get("arguments"))
    return CallPart(call.get("index"), call.get("id") or "", function.get("name") or "", arguments)


def _arguments(value: Any) -> str:
    """Arguments as JSON text; a few servers send the object itself."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        raise Malformed("arguments that are no JSON") from None


def _times(timings: Mapping[str, Any]) -> TimesPart | None:
    """Times from llama.cpp's `timings` or vLLM's `metrics`; None if a server reports neither."""
    prompt_ms, predicted_ms = _ms(timings, "prompt_ms"), _ms(timings, "predicted_ms")
    if prompt_ms is not None and predicted_ms is not None:
        return TimesPart(0.0, prompt_ms / 1e3, predicted_ms / 1e3)
    first_ms = _ms(timings, "time_to_first_token_ms")
    rest_ms = _ms(timings, "generation_time_ms")
    queue_ms = _ms(timings, "queue_time_ms") or 0.0
    if first_ms is not None and rest_ms is not None:
        return TimesPart(queue_ms / 1e3, first_ms / 1e3, rest_ms / 1e3)
    return None


def _ms(timings: Mapping[str, Any], name: str) -> float | None:
    value = timings.get(name)
    if value is None:
        return None
    if not (isinstance(value, int | float) and 0 <= value < MAX_COUNT):
        raise Malformed(f"{name} as {str(value)[:40]}, which is no time")
    return float(value)


def _error(error: Any) -> ErrorPart:
    if not isinstance(error, dict):
        return error_part(error, is_of_server=False)
    code = error.get("code")
    if isinstance(code, int):
        return error_part(error, is_of_server=code >= 500 or code in (408, 429))
    kind = text_of(error.get("type")).replace("_", "").lower()
    return error_part(error, is_of_server=kind in _SERVER_ERRORS)
