"""Prompts that leave too little room: what `on_overflow` is told, and the way out that trims."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.base.errors import PromptPart
from agentrt.program.trimming import Trimmings

if TYPE_CHECKING:
    from agentrt.program.chat import Chat

OnOverflow = Callable[["Overflow"], "Chat | Awaitable[Chat | None] | None"]
"""Gives a shorter chat, or None to go on with the one there is. May be `async` and generate."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """A prompt that leaves less than `max_tokens` of its model's window, nothing in it pending.

    Where `max_tokens` is more than half of the window, half of the window has to be left.

    Attributes:
        chat: The prompt.
        parts: Its parts with their sizes, the largest first; () where the engine counts tokens.
        prompt_tokens: What it takes; 0 where the engine counts.
        window_tokens: Of the model; 0 where the engine does not tell.
        max_tokens: Most that the output may take.
        least_tokens: What the smallest valid output takes.
        count: Counts the tokens of a chat as the model would see it; None where the engine counts.
    """

    chat: Chat
    parts: tuple[PromptPart, ...] = ()
    prompt_tokens: int = 0
    window_tokens: int = 0
    max_tokens: int = 0
    least_tokens: int = 1
    count: Callable[[Chat], int] | None = None

    @property
    def target_tokens(self) -> int:
        """A prompt of at most this leaves room for the output."""
        return target_tokens(self.window_tokens, self.max_tokens)

    def fits(self, chat: Chat) -> bool:
        """Whether `chat` leaves room for the output; True where the engine counts."""
        return self.count is None or self.count(chat) <= self.target_tokens

    def holds(self, chat: Chat) -> bool:
        """Whether at least the smallest valid output fits behind `chat`."""
        if self.count is None:
            return True
        return self.count(chat) + self.least_tokens <= self.window_tokens


def target_tokens(window_tokens: int, max_tokens: int) -> int:
    """What a prompt should take at most."""
    return window_tokens - min(max_tokens, window_tokens // 2)


def trim(overflow: Overflow) -> Chat | None:
    """Leaves out what is oldest; for `on_overflow=trim`.

    It goes down to three quarters of what would do: each cut makes the engine compute the prompt
    anew, so the next turns should not need one. System messages at the start stay, and so does the
    last exchange. Exchanges go from their user message on, whole; then rounds of calls and results
    within the last exchange, but for the last. Where only the engine can count, half of what may
    go goes.

    Returns:
        The chat without those; None where it cannot become short enough.
    """
    cuts = Trimmings(overflow.chat)
    if not len(cuts):
        return None
    if overflow.count is None:
        return cuts[len(cuts) // 2]
    count, goal_tokens = overflow.count, overflow.target_tokens * 3 // 4
    first = bisect_left(cuts, True, key=lambda cut: count(cut) <= goal_tokens)
    if first < len(cuts):
        return cuts[first]
    shortest = cuts[len(cuts) - 1]
    return shortest if overflow.holds(shortest) else None
