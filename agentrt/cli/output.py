"""A result on standard output: readable on a terminal, one compact line where it is piped."""

from __future__ import annotations

import json
from typing import Any

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import ProgramError


def shown(value: Any, *, pretty: bool) -> str:
    """A result as text: strings as they are, anything else as JSON.

    Args:
        value: Return value of the program.
        pretty: Indented, for people; else one compact line, for programs.
    """
    if isinstance(value, str):
        return value
    compact = dumps(plain(value))
    return json.dumps(json.loads(compact), ensure_ascii=False, indent=2) if pretty else compact


def checked(value: Any, *, where: str) -> Any:
    """`value` as data that can be printed.

    Raises:
        ProgramError: When it has no JSON form, as an open file or a NaN.
    """
    try:
        told = plain(value)
        shown(told, pretty=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ProgramError(
            f"the result, a {type(value).__name__}, cannot be printed: {error}",
            hint="return text, numbers, lists, dicts, dataclasses or pydantic models",
            where=where,
        ) from None
    return told


def plain(value: Any) -> Any:
    """A result as data that JSON carries; a chat becomes its messages, ready for `@FILE`."""
    from agentrt.program import Chat

    if isinstance(value, Chat):
        return value.messages()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value
