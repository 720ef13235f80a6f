"""An array of distinct items with few values, but too many arrays to list them all.

Written as a grammar with a rule for each set of items used so far.
"""

from __future__ import annotations

from typing import Any

from agentrt.base.json_style import SEPARATORS, JsonStyle, styled_json
from agentrt.structured.json_schema.lark_text import quoted
from agentrt.structured.json_schema.lowering import listed_values

MAX_ITEMS = 10
"""Maximum number of items for writing out all sets of them: 1,024 rules."""

_KNOWN = frozenset({"$schema", "type", "items", "uniqueItems", "minItems", "maxItems"})


def distinct_lark(schema: Any, style: JsonStyle = "compact") -> str | None:
    """A Lark grammar of the JSON of a whole schema, if it is such an array."""
    if not isinstance(schema, dict) or schema.get("uniqueItems") is not True:
        return None
    values = listed_values(schema.get("items"))
    if values is None or schema.get("type") != "array" or not schema.keys() <= _KNOWN:
        return None
    most = min(schema.get("maxItems", len(values)), len(values))
    fewest = schema.get("minItems", 0)
    if len(values) > MAX_ITEMS or fewest > most or most == 0:
        return None
    written = [quoted(styled_json(value, style)) for value in values]
    comma = quoted(SEPARATORS[style].item)
    lines = ['start: "[" next_0', f"next_0: {'item_0' if fewest else 'item_0 | close'}"]
    lines.append('close: "]"')
    for used in range(1 << len(values)):
        count = used.bit_count()
        if 0 < count <= most:
            options = ["close"] * (count >= fewest) + [f"{comma} item_{used}"] * (count < most)
            lines.append(f"next_{used}: {' | '.join(options)}")
        if count < most:
            free = (index for index in range(len(values)) if not used >> index & 1)
            options = [f"{written[index]} next_{used | 1 << index}" for index in free]
            lines.append(f"item_{used}: {' | '.join(options)}")
    return "\n".join([*lines, ""])
