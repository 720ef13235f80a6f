"""A result on standard output: readable on a terminal, one compact line in a pipe."""

from __future__ import annotations

import json
from typing import Any

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import ProgramError


def shown(value: Any, *, pretty: bool) -> str:
    """A result as text: strings as they are, anything else as JSON.

    Args:
        value: Return value of the program.
        pretty: Indent for people; else one compact line, for programs.
    """
    if isinstance(value, str):
        return value
    compact = dumps(plain(value))
    return json.dumps(json.loads(compact), ensure_ascii=False, indent=2) if pretty else compact


def checked(value: Any, *, where: str) -> Any:
    """`value` as printable data.

    Raises:
        ProgramError: The value has no JSON form, for example an open file or a NaN.
    """
    try:
        data = plain(value)
        shown(data, pretty=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ProgramError(
            f"the result, a {type(value).__name__}, cannot be printed: {error}",
            hint="return text, numbers, lists, dicts, dataclasses or pydantic models",
            where=where,
        ) from None
    return data


def plain(value: Any) -> Any:
    """A result as JSON-like data; a chat becomes its messages, ready for `@FILE`."""
    from agentrt.program import Chat

    if isinstance(value, Chat):
        return value.messages()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value
