"""The place of an output, from the reader of its text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agentrt.structured.rendering.places import Items, Place, Whole, plain_place
from agentrt.structured.rendering.typed_places import place_of
from agentrt.structured.types.json_reader import JsonReader, PlainReader


def output_place(read: Callable[[str], Any]) -> Place | None:
    """The place of the value that a reader of text gives; None if the text is no JSON of it."""
    if isinstance(read, JsonReader):
        return place_of(read.adapter)
    return plain_place(json.loads) if isinstance(read, PlainReader) else None


def array_place(read: Callable[[str], Any]) -> Place | None:
    """The place of an array with items that a reader gives."""
    item = output_place(read)
    return None if item is None else Items(lambda _: item, Whole(_no_value, _no_value))


def _no_value(text: Any) -> Any:
    raise ValueError("an array of items is read item by item")
