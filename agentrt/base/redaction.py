"""The slot for a function of the user that redacts content before it is written anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Redaction = Callable[[str], str]
Given = TypeVar("Given", bound=Redaction | None)
FAILED = "[redaction failed: {error}]"
_slot: list[Redaction] = []


def redact_content(function: Given) -> Given:
    r"""Let a function redact each text of prompts, answers, arguments and results that is kept.

    It is called for transcripts and for the content of spans, in a thread of its own, with one text
    after the other: each string in a structured value is one. Its result is written instead; where
    it fails, the text is left out. The last function given holds; None ends that. What looks like a
    key of an API is redacted without it.

    Example:
        >>> import re
        >>> from agentrt import redact_content
        >>> @redact_content
        ... def without_addresses(text: str) -> str:
        ...     return re.sub(r"\b[\w.]{1,64}@[\w.]+", "[address]", text)
        >>> without_addresses("Write to ada@example.org")
        'Write to [address]'
    """
    _slot[:] = [] if function is None else [function]
    return function


def has_redaction() -> bool:
    """Whether a function redacts content."""
    return bool(_slot)


def redacted(text: str) -> str:
    """The text as the user's function gives it; the text itself without one."""
    if not _slot:
        return text
    try:
        given = _slot[0](text)
    except Exception as error:
        return FAILED.format(error=type(error).__name__)
    return given if isinstance(given, str) else FAILED.format(error=type(given).__name__)
