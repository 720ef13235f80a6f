"""A chat without its oldest parts, in steps that leave a chat that templates take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from agentrt.program.chat import Chat


class Trimmings(Sequence["Chat"]):
    """Shorter and shorter versions of a chat; each is made when it is asked for.

    Args:
        chat: The chat. Its leading system messages stay. Exchanges go whole, from their user
            message on, but for the last; of that, rounds of an assistant's message and the results
            that follow it go, but for the last.
    """

    def __init__(self, chat: Chat) -> None:
        line = [link for link in chat.line() if link.role is not None]
        start = next((i for i, link in enumerate(line) if link.role != "system"), len(line))
        self._chat = chat
        self._line = line
        exchanges = _starts(line, start, "user") or [start]
        rounds = _starts(line, exchanges[-1], "assistant") or [len(line)]
        # What stays of the start, and from where on all stays.
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

    def _cut(self, asked: int, answered: int, begin: int) -> Chat:
        line = self._line
        return self._chat.made_of(line[: self._head] + line[asked:answered] + line[begin:])


def _starts(line: list[Chat], start: int, role: str) -> list[int]:
    """Where messages of `role` begin from `start` on; several in a row begin once."""
    found: list[int] = []
    before: str | None = None
    for index in range(start, len(line)):
        if line[index].role == role and before != role:
            found.append(index)
        before = line[index].role
    return found
