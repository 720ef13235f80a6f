"""Items that `enum` and `const` list: their values, and the texts that are left of them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection
from typing import Any

from agentrt.base.one_of import equality_key
from agentrt.base.record import record
from agentrt.structured.json_schema.alternatives import Alternative
from agentrt.structured.json_schema.merging import values_within

LISTING = frozenset({"enum", "const"})


@record
class ListedTexts:
    """The texts of all items that an array may have.

    Attributes:
        texts: The texts, sorted.
    """

    texts: tuple[bytes, ...]

    def has_more(self, begun: bytes, written: Collection[bytes]) -> bool | None:
        """Whether a text begins so, besides those that are written; None if none of all does.

        Args:
            begun: Beginning of an item.
            written: The texts with this beginning that are written.
        """
        first = bisect_left(self.texts, begun)
        count = bisect_left(self.texts, begun + b"\xff", first) - first  # no byte of UTF-8
        return count > len(written) if count else None


def is_listed(alternative: Alternative) -> bool:
    """Whether an alternative lists its values."""
    return any(schema.keys() & LISTING for schema in alternative)


def stated_values(alternative: Alternative) -> list[Any]:
    """The values that the first listing of an alternative states."""
    listing = next(schema for schema in alternative if schema.keys() & LISTING)
    values: list[Any] = listing.get("enum", [listing.get("const")])
    return values


def fitting_values(alternative: Alternative) -> list[Any] | None:
    """The values that fit an alternative; None if they are not listed."""
    if not is_listed(alternative):
        return None
    listing = next(schema for schema in alternative if schema.keys() & LISTING)
    others = [schema for schema in alternative if schema is not listing]
    return values_within({**listing, "allOf": others} if others else listing)


def hold_parts(values: list[Any]) -> bool:
    """Whether objects or arrays are among some values."""
    return any(isinstance(value, dict | list) for value in values)


def have_one_text_each(values: list[Any]) -> bool:
    """Whether listed values have a text each, and equal ones the same."""
    if any(isinstance(value, float) and value.is_integer() for value in values):
        return False
    texts = {json.dumps(value) for value in values}
    return len(texts) == len({equality_key(value) for value in values})
