"""The chats of a program that is played from a trace, made as its own code would have made them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from agentrt.program import Chat, Gen, Node, chat

PartT = TypeVar("PartT", bound=Hashable)


class ChatTree(Generic[PartT]):
    """Chats that begin alike are one chat that forks, and an answer is gone on from.

    It keeps no way back to its owner: chats have to go with the program that held them.
    """

    def __init__(self) -> None:
        self._root = chat()
        self._longer: dict[tuple[int, str, tuple[PartT, ...]], Chat] = {}

    def find(
        self,
        messages: Iterable[tuple[str, tuple[PartT, ...]]],
        meant: Callable[[PartT], str | Node[Any]],
    ) -> Chat:
        """The chat of these messages.

        Args:
            messages: Of each its role and its parts.
            meant: The text of a part, or the node that it quotes, which may be pending.
        """
        found = self._root
        for role, parts in messages:
            key = (found.serial, role, parts)
            longer = self._longer.get(key)
            if longer is None:
                longer = self._longer[key] = _said(found, role, [meant(part) for part in parts])
            found = longer
        return found


def _said(before: Chat, role: str, told: Sequence[str | Node[Any]]) -> Chat:
    match role:
        case "system":
            return before.system(*told)
        case "assistant":
            answer = told[0] if len(told) == 1 else None
            if isinstance(answer, Gen) and answer.prompt is before:
                return answer.ctx
            return before.assistant(*told)
        case _:
            return before.user(*told)
