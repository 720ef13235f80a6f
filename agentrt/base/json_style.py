"""Styles of JSON text, which differ in the blanks behind commas and colons."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

JsonStyle = Literal["compact", "spaced"]
"""`compact` has no blanks. `spaced` has one behind each comma and colon, as `json.dumps` writes."""


class Separators(NamedTuple):
    """Texts between the parts of JSON.

    Attributes:
        item: Between two items, or two fields.
        key: Between a key and its value.
    """

    item: str
    key: str


SEPARATORS: dict[JsonStyle, Separators] = {
    "compact": Separators(",", ":"),
    "spaced": Separators(", ", ": "),
}


def styled_json(value: Any, style: JsonStyle = "compact") -> str:
    """A plain value as JSON in a style."""
    separators = SEPARATORS[style]
    return json.dumps(value, ensure_ascii=False, separators=separators, allow_nan=False)
