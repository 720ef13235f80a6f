"""The shape of what a server sends: checked once, so that its readers may rely on it.

Only fields that are read are checked; a server may send any others. What events look like is up to
each protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

MAX_COUNT = 1 << 53


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
            (object_at(entry, "meta"), "n_ctx"),
            (object_at(entry, "meta"), "n_ctx_train"),
        ):
            count_at(place, key)
    return listed


def object_at(place: Mapping[str, Any], name: str) -> Json:
    """The object at a field; empty if it is absent or null.

    Raises:
        Malformed: The value is of another type.
    """
    check_type(place, name, dict)
    return place.get(name) or {}


def objects_at(place: Mapping[str, Any], name: str) -> list[Json]:
    """The array of objects at a field; empty if it is absent or null.

    Raises:
        Malformed: The value is of another type.
    """
    check_type(place, name, list)
    found = place.get(name) or []
    for one in found:
        if not isinstance(one, dict):
            raise Malformed(f"{name} with {type(one).__name__} in it")
    return found


def check_type(place: Mapping[str, Any], name: str, kind: type) -> None:
    """Check that a field is absent, null or of a type.

    Raises:
        Malformed: The value is of another type.
    """
    value = place.get(name)
    if value is not None and not isinstance(value, kind):
        raise Malformed(f"{name} as {type(value).__name__}, not {kind.__name__}")


def count_at(place: Mapping[str, Any], name: str) -> int:
    """The count at a field; 0 if it is absent or null.

    Raises:
        Malformed: The value is of another type.
    """
    value = place.get(name)
    if value is None:
        return 0
    if not (isinstance(value, int) and 0 <= value < MAX_COUNT):
        raise Malformed(f"{name} as {str(value)[:40]}, which is no count")
    return int(value)


def text_of(value: Any) -> str:
    """A text; "" for anything else."""
    return value if isinstance(value, str) else ""


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
