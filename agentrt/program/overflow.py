"""Sizes of a prompt that leaves too little room for its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentrt.base.errors import PromptPart

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class PromptOverflow(Generic[C]):
    """The fields and methods of `Overflow`, for any type of chat."""

    chat: C
    parts: tuple[PromptPart, ...] = ()
    prompt_tokens: int = 0
    window_tokens: int = 0
    max_tokens: int = 0
    least_tokens: int = 1
    count: Callable[[C], int] | None = None

    @property
    def target_tokens(self) -> int:
        """The longest prompt that leaves room for the output, in tokens."""
        return target_tokens(self.window_tokens, self.max_tokens)

    def fits(self, chat: C) -> bool:
        """Whether `chat` leaves room for the output; True if only the engine can count."""
        return self.count is None or self.count(chat) <= self.target_tokens

    def holds(self, chat: C) -> bool:
        """Whether at least the smallest valid output fits behind `chat`."""
        if self.count is None:
            return True
        return self.count(chat) + self.least_tokens <= self.window_tokens


def target_tokens(window_tokens: int, max_tokens: int) -> int:
    """The length that a prompt should have at most."""
    return window_tokens - min(max_tokens, window_tokens // 2)
