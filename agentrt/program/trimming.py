"""Trimming: a chat without its oldest parts, in a form that templates accept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import overload

from agentrt.program.chat import Chat, Overflow
from agentrt.program.prompt_prefix import links_of, rebuilt, role_of


def trim(overflow: Overflow) -> Chat | None:
    """Leave out the oldest messages of a chat; for `on_overflow=trim`.

    Use it for chats that may outgrow the window and can do without their beginning. System messages
    at the start stay, and so does the last exchange. First whole exchanges go, each from its user
    message on; then rounds of calls and results within the last exchange, except for the last one.

    The result has three quarters of the length that would do: the engine computes the prompt anew
    after each cut, so the next turns should not need another one. If only the engine can count
    tokens, half of the parts that may go are left out.

    Example:
        >>> from agentrt import Overflow, chat, trim
        >>> talk = chat("Be brief.").user("Hello!").assistant("Hi!").user("Name a river.")
        >>> trim(Overflow(talk)).messages()[1:]
        [{'role': 'user', 'content': 'Name a river.'}]

    Args:
        overflow: The chat and its sizes.

    Returns:
        The shorter chat; None if it cannot become short enough.
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


class Trimmings(Sequence[Chat]):
    """Shorter and shorter versions of a chat, each made on access; see `trim`."""

    def __init__(self, chat: Chat) -> None:
        links = [link for link in links_of(chat) if role_of(link) is not None]
        start = next((i for i, link in enumerate(links) if role_of(link) != "system"), len(links))
        self._chat = chat
        self._links = links
        exchanges = _starts(links, start, "user") or [start]
        rounds = _starts(links, exchanges[-1], "assistant") or [len(links)]
        # Links kept after the head, [first, second), and the first link of the kept end.
        self._cuts = [(start, start, begin) for begin in exchanges if begin > start]
        self._cuts += [(exchanges[-1], rounds[0], begin) for begin in rounds[1:]]
        self._head = start

    def __len__(self) -> int:
        return len(self._cuts)

    @overload
    def __getitem__(self, index: int) -> Chat: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chat]: ...
    def __getitem__(self, index: int | slice) -> Chat | list[Chat]:
        if isinstance(index, slice):
            return [self._cut(*cut) for cut in self._cuts[index]]
        return self._cut(*self._cuts[index])

    def _cut(self, first: int, second: int, begin: int) -> Chat:
        links = self._links
        return rebuilt(self._chat, links[: self._head] + links[first:second] + links[begin:])


def _starts(links: list[Chat], start: int, role: str) -> list[int]:
    """Indices from `start` on at which messages of `role` begin, once for several in a row."""
    found: list[int] = []
    before: str | None = None
    for index in range(start, len(links)):
        if role_of(links[index]) == role and before != role:
            found.append(index)
        before = role_of(links[index])
    return found
