"""A node of a tool that yields the text of its result."""

from __future__ import annotations

from typing import Any, TypeVar

from agentrt.program.node import Node

T_co = TypeVar("T_co", covariant=True)


class YieldingNode(Node[T_co]):
    """A call of a tool that yields text, which prompts take as it comes.

    Attributes:
        chunks: The texts so far; another list for each attempt.
    """

    __slots__ = ("chunks",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chunks: list[str] = []

    def add_text(self, text: str) -> None:
        """Append text that the tool has yielded."""
        self.chunks.append(text)

    def begin_anew(self) -> None:
        """Forget the text of an attempt that has failed."""
        self.chunks = []
