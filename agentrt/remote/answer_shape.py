"""The shape of what a server sends: checked once, so that its readers may rely on it.

Only fields that are read are checked; a server may send any others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

MAX_COUNT = 1 << 53
TIMES = (
    "cache_n",
    "prompt_ms",
    "predicted_ms",
    "queue_time_ms",
    "time_to_first_token_ms",
    "generation_time_ms",
)


class Malformed(ValueError):
    """An answer does not have the shape of the API; the message says where."""


def parsed_object(data: str | bytes) -> Json:
    """The JSON object in `data`.

    Raises:
        Malformed: The data is no JSON object.
    """
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # of the decoding too
        value = None
    if not isinstance(value, dict):
        shown = data[:60].decode("utf-8", "replace") if isinstance(data, bytes) else data[:60]
        raise Malformed(f"{shown!r}, which is not a JSON object")
    return value


def check_chunk(chunk: Json) -> Json:
    """The chunk of a chat completion, once all that is read of it has the right types.

    Raises:
        Malformed: Something has another type.
    """
    if chunk.get("error"):
        return chunk
    _check_usage(_object(chunk, "usage"))
    for name in ("timings", "metrics"):
        chunk[name] = _times(_object(chunk, name), name)
    for choice in _objects(chunk, "choices"):
        delta = _object(choice, "delta")
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            _optional(delta, name, str)
        for call in _objects(delta, "tool_calls"):
            _optional(call, "index", int)
            _optional(call, "id", str)
            function = _object(call, "function")
            _optional(function, "name", str)
            _check_arguments(function.get("arguments"))
        _optional(choice, "finish_reason", str)
    return chunk


def check_models(answer: Json) -> list[Json]:
    """The entries of a list of models.

    Raises:
        Malformed: The answer is no list of models.
    """
    if not isinstance(answer.get("data"), list):
        raise Malformed("no list of models")
    entries = [entry for entry in answer["data"] if isinstance(entry, dict)]
    listed = [entry for entry in entries if isinstance(entry.get("id"), str)]
    for entry in listed:
        for place, key in (
            (entry, "max_model_len"),
            (_object(entry, "meta"), "n_ctx"),
            (_object(entry, "meta"), "n_ctx_train"),
        ):
            _count(place.get(key), key)
    return listed


def _check_usage(usage: Mapping[str, Any]) -> None:
    for name in ("prompt_tokens", "completion_tokens"):
        _count(usage.get(name), f"usage.{name}")
    details = _object(usage, "prompt_tokens_details")
    _count(details.get("cached_tokens"), "usage.prompt_tokens_details.cached_tokens")
    details = _object(usage, "completion_tokens_details")
    _count(details.get("reasoning_tokens"), "usage.completion_tokens_details.reasoning_tokens")


def _object(place: Mapping[str, Any], name: str) -> Json:
    _optional(place, name, dict)
    return place.get(name) or {}


def _objects(place: Mapping[str, Any], name: str) -> list[Json]:
    _optional(place, name, list)
    found = place.get(name) or []
    for one in found:
        if not isinstance(one, dict):
            raise Malformed(f"{name} with {type(one).__name__} in it")
    return found


def _optional(place: Mapping[str, Any], name: str, kind: type) -> None:
    value = place.get(name)
    if value is not None and not isinstance(value, kind):
        raise Malformed(f"{name} as {type(value).__name__}, not {kind.__name__}")


def _count(value: Any, name: str) -> None:
    if value is not None and not (isinstance(value, int) and 0 <= value < MAX_COUNT):
        raise Malformed(f"{name} as {str(value)[:40]}, which is no count")


def _times(times: Json, name: str) -> Json:
    """The times that a server reports, without those that it does not know."""
    known = {key: times[key] for key in TIMES if times.get(key) is not None}
    for key, value in known.items():
        finite = isinstance(value, int | float) and 0 <= value < MAX_COUNT
        if not finite:
            raise Malformed(f"{name}.{key} as {str(value)[:40]}, which is no time")
    return known


def _check_arguments(arguments: Any) -> None:
    if not isinstance(arguments, str):
        try:
            json.dumps(arguments, allow_nan=False)
        except (ValueError, RecursionError):
            raise Malformed("arguments that are no JSON") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
