"""Settings of what is kept of prompts, answers, tool arguments and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from agentrt.base.errors import UsageError

ContentChoice = Literal["transcript", "spans", "off"]
CONTENT_VARIABLE = "AGENTRT_CONTENT"


@dataclass(frozen=True, slots=True)
class ContentConfig:
    """Settings of what is kept of prompts, answers, tool arguments and results.

    Example:
        >>> from agentrt.base.content_config import ContentConfig
        >>> ContentConfig(keep="off")
        ContentConfig(keep='off', max_text_characters=200000, max_run_bytes=16777216)

    Attributes:
        keep: "transcript" keeps it in a file beside the trace, "spans" also in spans, and so in
            trace files and at collectors, "off" keeps none; None leaves it to the command.
        max_text_characters: Longest text; what is longer loses its middle, with a mark.
        max_run_bytes: Largest transcript of a run; nodes that end when it is full are counted.

    Raises:
        UsageError: A value is out of range.
    """

    keep: ContentChoice | None = None
    max_text_characters: int = 200_000
    max_run_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        for name, least in (("max_text_characters", 100), ("max_run_bytes", 1000)):
            given: int = getattr(self, name)
            if given < least:
                raise UsageError(f"{name}={given} is too small", hint=f"Give {least} or more")


def content_choice(text: str, *, source: str) -> ContentChoice | None:
    """The choice that a text names; None for "".

    Args:
        text: `transcript`, `spans` or `off`.
        source: Flag or variable that gives it.

    Raises:
        UsageError: The text is anything else.
    """
    if not text:
        return None
    if text not in get_args(ContentChoice):
        raise UsageError(
            f"{source} {text!r} is no place for content", hint="give transcript, spans or off"
        )
    return cast(ContentChoice, text)
