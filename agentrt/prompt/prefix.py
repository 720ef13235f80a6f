"""A chat as a chain of prefixes: each has its ids, so a longer chat costs only its new part."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.segments import Role
from agentrt.prompt.encoded import PrefixLoss
from agentrt.prompt.layout import Kind
from agentrt.prompt.text_encoder import TextPosition


@dataclass(frozen=True, slots=True)
class PrefixMessage:
    """The open message at the end of a prefix.

    Attributes:
        role: Role of the message.
        opened_as: Kind with which its opening was written; None before that.
        has_content: Whether it has content.
        calls: Number of calls in it.
        call_id: Call answered by a tool message.
        name: Tool of a tool message.
        generated_calls: Whether a model wrote calls in it.
    """

    role: Role
    opened_as: Kind | None = None
    has_content: bool = False
    calls: int = 0
    call_id: str = ""
    name: str = ""
    generated_calls: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The first segments of a chat.

    Attributes:
        parent: The prefix one segment shorter; None at the start.
        ids: Ids added by the last segment.
        pending: Pending text after all ids, not encoded yet.
        position: Position of the pending text.
        strips_next: Whether a marker before it strips its leading whitespace.
        before: Kind of the last closed message.
        closed: Name and call id of that message.
        message: The open message.
        losses: Losses since the last answer of this model.
        rewritten: Whether the last answer of this model was opened differently from its prompt.
        appends: Whether answers of this model are kept as generated, whatever the template does.
        appended: Number of answers kept that way.
    """

    parent: Prefix | None = None
    ids: tuple[int, ...] = ()
    pending: str = ""
    position: TextPosition = TextPosition.START
    strips_next: bool = False
    before: Kind = "start"
    closed: tuple[str, str] = ("", "")
    message: PrefixMessage | None = None
    losses: tuple[PrefixLoss, ...] = ()
    rewritten: bool = False
    appends: bool = False
    appended: int = 0

    def until_appended(self) -> Prefix:
        """The shortest part of this prefix with as many appended answers."""
        here = self
        while here.parent is not None and here.parent.appended == self.appended:
            here = here.parent
        return here
