"""Trails: from a learned call or prompt to a part of it, as names in the sums of a row."""

from __future__ import annotations

import json
from typing import Any

Trail = tuple[Any, ...]


def trail_name(trail: Trail) -> str:
    """The name of a trail.

    Example:
        >>> trail_name(("app.py:3", 0, "hole"))
        '["app.py:3",0,"hole"]'
    """
    return json.dumps(trail, ensure_ascii=False, separators=(",", ":"))


def trail_in(name: str) -> Trail:
    """The trail that a name holds; () if it holds none.

    Raises:
        ValueError: The name is no JSON.

    Example:
        >>> trail_in('["app.py:3",0,"hole"]')
        ('app.py:3', 0, 'hole')
    """
    try:
        found = json.loads(name)
    except RecursionError:
        return ()
    return tuple(found) if isinstance(found, list) else ()
