"""An immutable prompt prefix: a linked list of pieces, and what can be read from it.

Parts may be pending nodes: the prompt then has holes that are filled in the declared order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import count
from typing import Any, Generic, Self, TypeVar, get_args

from agentrt.base.errors import UsageError
from agentrt.base.json_style import JsonStyle
from agentrt.base.segments import Close, History, Open, ResultOf, Role, Segment, Text, ToolSchema
from agentrt.program.node import Node, report_failure_as_text, segment_of
from agentrt.program.tool import Tool, ToolWork

AnswerT = TypeVar("AnswerT", bound=Node[Any])
NodeT = TypeVar("NodeT", bound=Node[Any])
PrefixT = TypeVar("PrefixT", bound="PromptPrefix[Any]")
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
        serial: Number of this prefix within the process, for the runtime.
        history: The form of earlier answers in the prompt: `template` as the template of the model
            writes them, `append` just as they were generated.
        json_style: Style of JSON in the prompt: of results, and of other values that are no text.
    """

    __slots__ = (
        "__weakref__",
        "_answer",
        "_nodes",
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
        self._nodes = tuple([piece for piece in pieces if isinstance(piece, Node)])
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
                report_failure_as_text(node)
                about = ResultOf(work.call.call_id, work.call.name)
            else:
                about = ResultOf("", node.name)
            chat = type(self)(chat, (_OPEN["tool"], about, node, _CLOSE))
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

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """Tools that the prompt describes to the model."""
        return self._tools

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
        roles = [piece.role for piece in pieces_of(self) if isinstance(piece, Open)]
        return f"<{type(self).__name__} {' '.join(roles) or 'empty'}>"


# What follows is for the runtime and for readers. It is no part of the class, so that users who
# complete the name of a chat see what they use.


def own_pieces(chat: PromptPrefix[Any]) -> tuple[Piece, ...]:
    """The pieces by which this link is longer than its parent."""
    return chat._pieces


def plain_pieces(chat: PromptPrefix[Any]) -> tuple[Segment, ...] | None:
    """The pieces of this link if no node is among them, else None."""
    return None if chat._nodes else chat._pieces  # type: ignore[return-value]


def role_of(chat: PromptPrefix[Any]) -> Role | None:
    """Role of the message by which this link is longer than its parent, or None."""
    first = chat._pieces[0] if chat._pieces else None
    return first.role if isinstance(first, Open) else None


def answer_of(chat: PromptPrefix[NodeT]) -> NodeT | None:
    """The generation that gives that message as its answer, or None."""
    return chat._answer


def last_answer(chat: PromptPrefix[NodeT]) -> NodeT | None:
    """The last generation that this chat continues, or None."""
    return since_answer(chat)[-1]._answer


def links_of(chat: PrefixT) -> list[PrefixT]:
    """This chat and those that it extends, the shortest first."""
    links: list[PrefixT] = []
    link: PrefixT | None = chat
    while link is not None:
        links.append(link)
        link = link._parent
    links.reverse()
    return links


def since_answer(chat: PrefixT) -> list[PrefixT]:
    """This chat and those that it extends, back to its last answer or to its root."""
    found, link = [chat], chat
    while link._answer is None and (parent := link._parent) is not None:
        found.append(parent)
        link = parent
    return found


def links_after(chat: PrefixT, known: Container[int]) -> tuple[PrefixT | None, list[PrefixT]]:
    """The longest known prefix of this chat, or None, and the links behind it, the last one first.

    Args:
        chat: The chat.
        known: Numbers of prefixes.
    """
    found: list[PrefixT] = []
    link: PrefixT | None = chat
    while link is not None and link.serial not in known:
        found.append(link)
        link = link._parent
    return link, found


def pieces_of(chat: PromptPrefix[Any]) -> list[Piece]:
    """The pieces of the prompt; each gives one of `prompt_segments`."""
    return [piece for link in links_of(chat) for piece in link._pieces]


def prompt_segments(chat: PromptPrefix[Any]) -> list[Segment]:
    """The prompt as plain values, with holes for pending parts."""
    style = chat.json_style
    segments: list[Segment] = []
    for link in links_of(chat):
        if link._nodes:
            segments += [
                segment_of(piece, as_answer=link._answer is piece, style=style)
                if isinstance(piece, Node)
                else piece
                for piece in link._pieces
            ]
        else:
            segments += link._pieces  # type: ignore[arg-type]  # no node is among them
    return segments


def inputs_of(chat: PromptPrefix[Any]) -> tuple[Node[Any], ...]:
    """Nodes with values that the prompt needs, back to its last answer.

    The nodes before that answer are inputs of the answer itself.
    """
    return inputs_in(since_answer(chat))


def inputs_in(links: Iterable[PromptPrefix[Any]]) -> tuple[Node[Any], ...]:
    """The nodes in some links of a prompt, which are given in the order of `since_answer`."""
    found: dict[Node[Any], None] = {}
    for link in links:
        if link._nodes:
            found.update(dict.fromkeys(reversed(link._nodes)))
    return tuple(reversed(found)) if found else ()


def rebuilt(chat: PrefixT, links: Iterable[PrefixT]) -> PrefixT:
    """A chat of the messages of some `links`, with the settings of this one."""
    kind = type(chat)
    made = kind(tools=chat._tools, history=chat.history, json_style=chat.json_style)
    for link in links:
        made = kind(made, link._pieces, answer=link._answer)
    return made


def with_tools(chat: PrefixT, tools: tuple[ToolSchema, ...]) -> PrefixT:
    """This chat with a prompt that describes these tools and no others."""
    return chat if tools == chat._tools else type(chat)(chat, tools=tools)


def with_more_tools(chat: PrefixT, tools: Sequence[Tool[..., Any]]) -> PrefixT:
    """This chat with a prompt that describes these tools too."""
    known = {schema.name: schema for schema in chat._tools}
    new = [t.spec.schema for t in tools if known.get(t.name) != t.spec.schema]
    if not new:
        return chat
    replaced = {schema.name for schema in new}
    kept = tuple(schema for schema in chat._tools if schema.name not in replaced)
    return type(chat)(chat, tools=kept + tuple(new))


def with_answer(chat: PrefixT, answer: Node[Any], serial: int | None = None) -> PrefixT:
    """This chat and the answer of a generation, with the number that it had when made before."""
    longer = type(chat)(chat, (_OPEN["assistant"], answer, _CLOSE), answer=answer)
    if serial is not None:
        longer.serial = serial
    return longer


def with_text(chat: PrefixT, words: str) -> PrefixT:
    """This chat with text at the end of its last message, which is the user's if possible."""
    last = next((link for link in reversed(links_of(chat)) if link._pieces), chat)
    if role_of(last) != "user":
        return chat.user(words)
    pieces = (*last._pieces[:-1], Text(f"\n{words}"), _CLOSE)
    return type(chat)(
        last._parent,
        pieces,
        tools=chat._tools,
        label=chat.label,
        history=chat.history,
        json_style=chat.json_style,
    )


def extended(chat: PrefixT, pieces: tuple[Piece, ...]) -> PrefixT:
    """This chat with more pieces."""
    return type(chat)(chat, pieces)


def rebase(chat: PrefixT, prompt: PrefixT) -> None:
    """Let the pending answer that a chat ends with answer `prompt`, a shorter one.

    This is the only change of a chat: the prompt that the answer had did not fit.
    """
    chat._parent = prompt
