"""Styles of JSON text, which differ in the blanks between its parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

JsonStyle = Literal["compact", "spaced", "indented"]
"""`compact` has no blanks. `spaced` has one behind each comma and colon, as `json.dumps` writes.
`indented` has each item on a line of its own, as `json.dumps` with `indent=2`."""

_INDENT = "  "


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
    "indented": Separators(",", ": "),
}
"""The texts of each style, without its line breaks."""


def line_break(style: JsonStyle, depth: int) -> str:
    """The text before an item of a container, or before its end.

    Args:
        style: The style.
        depth: Number of containers around the item, or around the container that ends.
    """
    return f"\n{_INDENT * depth}" if style == "indented" else ""


_WRITERS: dict[JsonStyle, Callable[[Any], str]] = {
    style: json.JSONEncoder(
        ensure_ascii=False,
        separators=separators,
        allow_nan=False,
        indent=_INDENT if style == "indented" else None,
    ).encode
    for style, separators in SEPARATORS.items()
}
"""Kept, for `json.dumps` makes a new encoder for each value."""


def styled_json(value: Any, style: JsonStyle = "compact", depth: int = 0) -> str:
    """A plain value as JSON in a style.

    Args:
        value: The value.
        style: The style.
        depth: Number of containers that the value stands in.
    """
    text = _WRITERS[style](value)
    return text.replace("\n", line_break(style, depth)) if depth else text
