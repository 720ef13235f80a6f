"""The root of the error tree."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar


@dataclass(eq=False, repr=False)
class AgentrtError(Exception):
    """Any error of agentrt; catch it to report every fault of a run in one place.

    Example:
        >>> from agentrt import AgentrtError, chat
        >>> try:
        ...     chat().user(3)
        ... except AgentrtError as error:
        ...     print(error.message, error.hint, error.exit_code, sep=" | ")
        a part of a user message is int | Give text or a node: str(x) makes text of a value | 2

    Attributes:
        message: One line: what happened.
        hint: One line: how to mend it.
        where: `file:line` in the user's program, when known.
        holds_content: Whether the message may quote prompts, outputs or arguments; without capture
            of content traces leave such messages out.
        retryable: Whether the same call may succeed later.
        exit_code: Exit code of `agentrt run`.
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = ""

    message: str
    _: KW_ONLY
    hint: str = ""
    where: str = ""
    holds_content: bool = True

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.hint = self.hint or self.default_hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message
