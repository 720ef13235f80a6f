"""A chat as a chain of prefixes: each knows its ids, so a longer chat costs only its new part."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.segments import Role
from agentrt.prompt.encoded import PrefixLoss
from agentrt.prompt.layout import Kind
from agentrt.prompt.text_encoder import TextPosition


@dataclass(frozen=True, slots=True)
class PrefixMessage:
    """The message that a prefix ends in.

    Attributes:
        role: Who speaks.
        entered: Kind under which its opening was written; None before that.
        said: It has content already.
        calls: Calls written in it.
        call_id: Call that a tool message answers.
        name: Tool of a tool message.
        generated_calls: A model wrote calls in it.
    """

    role: Role
    entered: Kind | None = None
    said: bool = False
    calls: int = 0
    call_id: str = ""
    name: str = ""
    generated_calls: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The first segments of a chat.

    Attributes:
        parent: The prefix one segment shorter; None at the start.
        ids: What the last segment added.
        held: Text after all ids, not settled yet.
        place: Where the held text stands.
        eats: A marker before it swallows leading whitespace.
        before: Kind of the last closed message.
        closed: Name and call id of that message.
        message: The open message.
        losses: Since the last answer of this model.
        rewritten: The last answer of this model was opened otherwise than it was asked for.
        appends: Answers of this model stand as they were made, whatever the template says.
        appended: How many of those it holds.
    """

    parent: Prefix | None = None
    ids: tuple[int, ...] = ()
    held: str = ""
    place: TextPosition = TextPosition.START
    eats: bool = False
    before: Kind = "start"
    closed: tuple[str, str] = ("", "")
    message: PrefixMessage | None = None
    losses: tuple[PrefixLoss, ...] = ()
    rewritten: bool = False
    appends: bool = False
    appended: int = 0

    def until_appended(self) -> Prefix:
        """The shortest prefix of this one that holds as many answers as they were made."""
        here = self
        while here.parent is not None and here.parent.appended == self.appended:
            here = here.parent
        return here
