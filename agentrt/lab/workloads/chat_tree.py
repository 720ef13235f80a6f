"""The chats of a program that is played from a trace, built as its own code would build them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from agentrt.program import Chat, Gen, Node, chat

PartT = TypeVar("PartT", bound=Hashable)


class ChatTree(Generic[PartT]):
    """Chats that begin alike share a chat that forks, and an answer is continued from.

    Chats whose first messages differ share nothing: to admission control, a fork of an empty chat
    is a common prefix. The tree does not refer to its owner: chats have to be freed with the
    program that holds them.
    """

    def __init__(self) -> None:
        self._longer: dict[tuple[int | None, str, tuple[PartT, ...]], Chat] = {}

    def find(
        self,
        messages: Iterable[tuple[str, tuple[PartT, ...]]],
        meant: Callable[[PartT], str | Node[Any]],
    ) -> Chat:
        """The chat of these messages.

        Args:
            messages: Role and parts of each message.
            meant: Maps a part to its text, or to the node that it quotes, which may be pending.
        """
        found: Chat | None = None
        for role, parts in messages:
            key = (found and found.serial, role, parts)
            longer = self._longer.get(key)
            if longer is None:
                meanings = [meant(part) for part in parts]
                longer = self._longer[key] = _extended(found or chat(), role, meanings)
            found = longer
        return found or chat()


def _extended(before: Chat, role: str, parts: Sequence[str | Node[Any]]) -> Chat:
    match role:
        case "system":
            return before.system(*parts)
        case "assistant":
            answer = parts[0] if len(parts) == 1 else None
            if isinstance(answer, Gen) and answer.prompt is before:
                return answer.ctx
            return before.assistant(*parts)
        case _:
            return before.user(*parts)
