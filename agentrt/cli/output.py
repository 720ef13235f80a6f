"""A result on standard output: readable on a terminal, one compact line where it is piped."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from agentrt.canonical_json import dumps


def shown(value: Any, *, pretty: bool) -> str:
    """A result as text: strings as they are, anything else as JSON.

    Args:
        value: What the program returned.
        pretty: Indented, for people; else one compact line, for programs.
    """
    if isinstance(value, str):
        return value
    compact = dumps(plain(value))
    return json.dumps(json.loads(compact), ensure_ascii=False, indent=2) if pretty else compact


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


def write(value: Any, to: TextIO | None = None) -> None:
    """Writes a result and flushes it."""
    to = to or sys.stdout
    to.write(shown(value, pretty=to.isatty()) + "\n")
    to.flush()
