"""An immutable prompt prefix: a linked list of pieces, and what can be read from it.

Parts may be pending nodes: the prompt then has holes that are filled in the declared order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Generic, Self, TypeVar, get_args

from agentrt.base.errors import UsageError
from agentrt.base.json_style import JsonStyle
from agentrt.base.segments import Close, History, Open, ResultOf, Role, Segment, Text, ToolSchema
from agentrt.program.node import Node
from agentrt.program.tool import Tool, ToolWork

AnswerT = TypeVar("AnswerT", bound=Node[Any])
Part = str | Node[Any]
Piece = Segment | Node[Any]

_serials = count()
_OPEN: dict[Role, Open] = {role: Open(role) for role in get_args(Role)}
_CLOSE = Close()


class PromptPrefix(Generic[AnswerT]):
    """A link of a prompt: some pieces behind those of a shorter prefix.

    `Chat` adds the ways to generate.

    Args:
        parent: The prefix that this one extends, or None.
        pieces: The pieces by which it is longer.
        answer: The generation that gives the pieces as its answer, or None.
        tools: Tools that the prompt describes; None for those of `parent`.
        label: Name of the branch; "" for that of `parent`, until there is an answer.
        history: The form of earlier answers; None for that of `parent`.
        json_style: Style of values in the prompt; None for that of `parent`.

    Attributes:
        label: Name of the branch, given by `fork`; it names the node that continues it.
        serial: Number of this prefix within the process.
        history: The form of earlier answers in the prompt: `template` as the template of the model
            writes them, `append` just as they were generated.
        json_style: Style of JSON in the prompt: of results, and of other values that are no text.
    """

    __slots__ = (
        "__weakref__",
        "_answer",
        "_parent",
        "_pieces",
        "_tools",
        "history",
        "json_style",
        "label",
        "serial",
    )

    def __init__(
        self,
        parent: Self | None = None,
        pieces: tuple[Piece, ...] = (),
        *,
        answer: AnswerT | None = None,
        tools: tuple[ToolSchema, ...] | None = None,
        label: str = "",
        history: History | None = None,
        json_style: JsonStyle | None = None,
    ) -> None:
        self._parent = parent
        self._pieces = pieces
        self._answer = answer
        self._tools: tuple[ToolSchema, ...] = (
            tools if tools is not None else parent._tools if parent is not None else ()
        )
        self.history: History = history or (parent.history if parent is not None else "template")
        self.json_style: JsonStyle = json_style or (
            parent.json_style if parent is not None else "compact"
        )
        # A branch keeps its name until it has an answer; what follows is named by its own call.
        self.label: str = label or (parent.label if parent is not None and answer is None else "")
        self.serial = next(_serials)

    def system(self, *parts: Part) -> Self:
        """This chat and a system message."""
        return self._message("system", parts)

    def user(self, *parts: Part) -> Self:
        """This chat and a user message of some parts in a row, pending nodes among them."""
        return self._message("user", parts)

    def assistant(self, *parts: Part) -> Self:
        """This chat and an assistant message that was not generated here, such as an example."""
        return self._message("assistant", parts)

    def results(self, nodes: Iterable[Node[Any]]) -> Self:
        """This chat and the results of tools, in this order.

        The failure of a tool that a model called becomes the text `error: <message>`.
        """
        chat = self
        for node in nodes:
            work = node.work
            if isinstance(work, ToolWork) and work.call is not None:
                node.report_failure_as_text()
                about = ResultOf(work.call.call_id, work.call.name)
            else:
                about = ResultOf("", node.name)
            chat = chat.extended((_OPEN["tool"], about, node, _CLOSE))
        return chat

    def fork(self, n: int | None = None, *, names: Sequence[str] = ()) -> list[Self]:
        """This chat `n` times; `names` name the nodes that continue each branch.

        Raises:
            UsageError: The count is below 1, or is not that of the names.
        """
        if n is None:
            n = len(names)
        if n < 1 or (names and len(names) != n):
            raise UsageError(
                f"fork({n}, names={list(names)!r}) does not fit",
                hint="Give a count of 1 or more, or one name a branch",
            )
        return [type(self)(self, label=names[i] if names else "") for i in range(n)]

    # What follows is for the runtime and for readers.

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """Tools that the prompt describes to the model."""
        return self._tools

    @property
    def parent(self) -> Self | None:
        """The prefix that this one extends, or None."""
        return self._parent

    @property
    def own_pieces(self) -> tuple[Piece, ...]:
        """The pieces by which this link is longer than its parent."""
        return self._pieces

    @property
    def role(self) -> Role | None:
        """Role of the message by which this link is longer than its parent, or None."""
        first = self._pieces[0] if self._pieces else None
        return first.role if isinstance(first, Open) else None

    @property
    def answer(self) -> AnswerT | None:
        """The generation that gives that message as its answer, or None."""
        return self._answer

    @property
    def last_answer(self) -> AnswerT | None:
        """The last generation that this chat continues, or None."""
        return self.since_answer()[-1]._answer

    def links(self) -> list[Self]:
        """This chat and those that it extends, the shortest first."""
        links: list[Self] = []
        chat: Self | None = self
        while chat is not None:
            links.append(chat)
            chat = chat._parent
        links.reverse()
        return links

    def since_answer(self) -> list[Self]:
        """This chat and those that it extends, back to its last answer or to its root."""
        found: list[Self] = [self]
        while found[-1]._answer is None and (parent := found[-1]._parent) is not None:
            found.append(parent)
        return found

    def pieces(self) -> list[Piece]:
        """The pieces of the prompt; each gives one of `segments`."""
        return [piece for link in self.links() for piece in link._pieces]

    def segments(self) -> list[Segment]:
        """The prompt as plain values, with holes for pending parts."""
        return [
            piece.segment(as_answer=link._answer is piece, style=self.json_style)
            if isinstance(piece, Node)
            else piece
            for link in self.links()
            for piece in link._pieces
        ]

    def inputs(self) -> tuple[Node[Any], ...]:
        """Nodes with values that the prompt needs, back to its last answer.

        The nodes before that answer are inputs of the answer itself.
        """
        found: dict[Node[Any], None] = {}
        for link in self.since_answer():
            for piece in reversed(link._pieces):
                if isinstance(piece, Node):
                    found[piece] = None
        return tuple(reversed(found))

    def rebuilt(self, links: Iterable[Self]) -> Self:
        """A chat of the messages of some `links`, with the settings of this one."""
        chat = type(self)(tools=self._tools, history=self.history, json_style=self.json_style)
        for link in links:
            chat = type(self)(chat, link._pieces, answer=link._answer)
        return chat

    def with_tools(self, tools: tuple[ToolSchema, ...]) -> Self:
        """This chat with a prompt that describes these tools and no others."""
        return self if tools == self._tools else type(self)(self, tools=tools)

    def with_answer(self, answer: AnswerT) -> Self:
        """This chat and the answer of a generation."""
        return type(self)(self, (_OPEN["assistant"], answer, _CLOSE), answer=answer)

    def with_text(self, words: str) -> Self:
        """This chat with text at the end of its last message, which is the user's if possible."""
        last = next((link for link in reversed(self.links()) if link._pieces), self)
        if last.role != "user":
            return self.user(words)
        pieces = (*last._pieces[:-1], Text(f"\n{words}"), _CLOSE)
        return type(self)(
            last._parent,
            pieces,
            tools=self._tools,
            label=self.label,
            history=self.history,
            json_style=self.json_style,
        )

    def extended(self, pieces: tuple[Piece, ...]) -> Self:
        """This chat with more pieces."""
        return type(self)(self, pieces)

    def rebase(self, prompt: Self) -> None:
        """Let the pending answer that this chat ends with answer `prompt`, a shorter one.

        This is the only change of a chat: the prompt that the answer had did not fit.
        """
        self._parent = prompt

    def with_more_tools(self, tools: Sequence[Tool[..., Any]]) -> Self:
        """This chat with a prompt that describes these tools too."""
        known = {schema.name: schema for schema in self._tools}
        new = [t.spec.schema for t in tools if known.get(t.name) != t.spec.schema]
        if not new:
            return self
        replaced = {schema.name for schema in new}
        kept = tuple(schema for schema in self._tools if schema.name not in replaced)
        return type(self)(self, tools=kept + tuple(new))

    def _message(self, role: Role, parts: tuple[Part, ...]) -> Self:
        pieces: list[Piece] = [_OPEN[role]]
        for part in parts:
            if isinstance(part, str):
                if part:
                    pieces.append(Text(part))
            elif isinstance(part, Node):
                pieces.append(part)
            else:
                raise UsageError(
                    f"a part of a {role} message is {type(part).__name__}",
                    hint="Give text or a node: str(x) makes text of a value",
                )
        pieces.append(_CLOSE)
        return type(self)(self, tuple(pieces))

    def __repr__(self) -> str:
        roles = [piece.role for piece in self.pieces() if isinstance(piece, Open)]
        return f"<{type(self).__name__} {' '.join(roles) or 'empty'}>"
