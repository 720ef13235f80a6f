"""Schemas of constraints, parsed once: the steps of a compilation read the same source."""

from __future__ import annotations

import functools
import json
from typing import Any


@functools.lru_cache(maxsize=4)
def parsed(source: str) -> Any:
    """The schema of a source, shared by all that ask for it: it must not be changed.

    Raises:
        ValueError: The source is no JSON.
        RecursionError: The source is nested too deeply.
    """
    return json.loads(source)
