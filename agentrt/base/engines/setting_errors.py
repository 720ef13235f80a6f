"""Words in which errors of `agentrt.toml` name a value and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_TYPES = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "a table",
}


def type_name(value: object) -> str:
    """The type of a value in TOML's words."""
    return _TYPES.get(type(value), type(value).__name__)


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest, in brackets; "" if none is near."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
