"""JSON for people: a value on one line if it fits, else its parts below one another."""

from __future__ import annotations

import json
from typing import Any

_INDENT = 2


def fitted_json(text: str, width: int) -> str:
    """A JSON array or object that is longer than a line, laid out; any other text as it is."""
    if len(text) <= width or text[:1] not in ("{", "["):
        return text
    try:
        return _laid_out(json.loads(text), width, 0)
    except (ValueError, RecursionError):
        return text


def _laid_out(value: Any, width: int, used: int) -> str:
    """A value whose first line begins behind `used` characters."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) <= width - used or not value or not isinstance(value, dict | list):
        return whole
    items = list(value.items()) if isinstance(value, dict) else [("", one) for one in value]
    if not any(isinstance(one, dict | list) for _, one in items):
        return _filled(whole, items, width, used)
    inner = " " * _INDENT
    rows: list[str] = []
    for key, one in items:
        head = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(value, dict) else ""
        laid_out = _laid_out(one, width - _INDENT - 1, len(head))  # a comma follows
        rows.append(inner + head + laid_out.replace("\n", f"\n{inner}"))
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return opening + "\n" + ",\n".join(rows) + "\n" + closing


def _filled(whole: str, items: list[tuple[str, Any]], width: int, used: int) -> str:
    """Texts and numbers in rows, as many in each as fit."""
    heads = [
        f"{json.dumps(key, ensure_ascii=False)}: " if whole[0] == "{" else "" for key, _ in items
    ]
    rows, row = [], whole[0]
    room = width - used - 1  # a comma or bracket follows
    for number, ((_, one), head) in enumerate(zip(items, heads, strict=True)):
        text = head + json.dumps(one, ensure_ascii=False)
        if number and len(row) + 2 + len(text) > room:
            rows.append(row + ",")
            row, room = " ", width - 1
        elif number:
            row += ", "
        row += text
    return "\n".join([*rows, row + whole[-1]])
