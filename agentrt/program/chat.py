"""A chat: an immutable prompt prefix, which is a position in the engine's tree of prefixes.

Each method gives a longer chat and leaves this one as it is; forking is using the value twice.
Parts may be pending nodes: the prompt then has holes that are filled in the declared order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

from typing_extensions import TypeForm, Unpack

from agentrt.base.canonical_json import content
from agentrt.base.errors import ToolFailed, UsageError
from agentrt.base.segments import (
    Close,
    History,
    Hole,
    Open,
    ResultOf,
    Role,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.program.call_site import call_site
from agentrt.program.each import Calls, Each, Final, ToolCall
from agentrt.program.gen import Gen
from agentrt.program.messages import ChatSerializer, chat_of, chat_schema, messages_of
from agentrt.program.node import Node
from agentrt.program.node_specs import ToolWork
from agentrt.program.options import GenOptions
from agentrt.program.output import calls_of, items_of, step_of, value_of
from agentrt.program.output_types import Constraint, Place, description_for

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

    from agentrt.program.tool import Tool

T = TypeVar("T")
_serials = count()
_OPEN: dict[Role, Open] = {role: Open(role) for role in get_args(Role)}
_CLOSE = Close()
Part = str | Node[Any]
Piece = Segment | Node[Any]


class Chat:
    r"""An immutable prompt prefix.

    Example:
        ```python
        ask = chat(system="Be brief.").user("Data: ", node, "\nWhat follows from it?")
        answer = ask.generate(max_tokens=80)
        more = answer.ctx.user("Why?").generate()      # declared before the answer exists
        ```

    Attributes:
        label: Name of the branch, given by `fork`; it names the node that continues it.
        serial: Tells chats apart within this process.
        history: How earlier answers stand in the prompt: as the model's `template` writes them, or
            `append`, just as they were generated.
    """

    __slots__ = (
        "__weakref__",
        "_answer",
        "_parent",
        "_pieces",
        "_tools",
        "history",
        "label",
        "serial",
    )

    def __init__(
        self,
        parent: Chat | None = None,
        pieces: tuple[Piece, ...] = (),
        *,
        answer: Gen[Any] | None = None,
        tools: tuple[ToolSchema, ...] | None = None,
        label: str = "",
        history: History | None = None,
    ) -> None:
        self._parent = parent
        self._pieces = pieces
        self._answer = answer
        self._tools: tuple[ToolSchema, ...] = (
            tools if tools is not None else parent._tools if parent is not None else ()
        )
        self.history: History = history or (parent.history if parent is not None else "template")
        # A branch keeps its name until it has an answer; what follows is named by its own call.
        self.label: str = label or (parent.label if parent is not None and answer is None else "")
        self.serial = next(_serials)

    def system(self, *parts: Part) -> Chat:
        """With a system message."""
        return self._message("system", parts)

    def user(self, *parts: Part) -> Chat:
        """With a user message; its parts stand one after the other, pending nodes among them."""
        return self._message("user", parts)

    def assistant(self, *parts: Part) -> Chat:
        """With an assistant message that was not generated here (an example, say)."""
        return self._message("assistant", parts)

    def results(self, nodes: Iterable[Node[Any]]) -> Chat:
        """With the results of tools, in this order.

        The failure of a tool that a model asked for becomes the text `error: <message>`.
        """
        chat = self
        for node in nodes:
            work = node.work
            if isinstance(work, ToolWork) and work.call is not None:
                node.tell()
                about = ResultOf(work.call.call_id, work.call.name)
            else:
                about = ResultOf("", node.name)
            chat = Chat(chat, (_OPEN["tool"], about, node, _CLOSE))
        return chat

    def fork(self, n: int | None = None, *, names: Sequence[str] = ()) -> list[Chat]:
        """This chat `n` times, said aloud; `names` name the nodes that continue each branch."""
        if n is None:
            n = len(names)
        if n < 1 or (names and len(names) != n):
            raise UsageError(
                f"fork({n}, names={list(names)!r}) does not fit",
                hint="Give a count of 1 or more, or one name a branch",
            )
        return [Chat(self, label=names[i] if names else "") for i in range(n)]

    @overload
    def generate(self, /, **options: Unpack[GenOptions]) -> Gen[str]: ...
    @overload
    def generate(self, out: Constraint[T], /, **options: Unpack[GenOptions]) -> Gen[T]: ...
    @overload
    def generate(self, out: TypeForm[T], /, **options: Unpack[GenOptions]) -> Gen[T]: ...
    def generate(self, out: Any = str, /, **options: Unpack[GenOptions]) -> Gen[Any]:
        """An answer of the given type, submitted at once.

        Args:
            out: Any type, or `regex(...)`, `choice(...)`, `cfg(...)`, `json_schema(...)`.
            options: See `GenOptions`.

        Raises:
            ConstraintError: The type cannot be enforced; told here, with a JSON pointer.
            NoRun: Outside a run.
            UsageError: An option does not exist or is out of range.
        """
        check = bool(options.get("check"))
        told = self._told(out, "checked" if check else "alone", options)
        return Gen.submit(told, value_of(out, check=check), options)

    @overload
    def each(self, item: Constraint[T], /, **options: Unpack[GenOptions]) -> Each[T]: ...
    @overload
    def each(self, item: TypeForm[T], /, **options: Unpack[GenOptions]) -> Each[T]: ...
    def each(self, item: Any, /, **options: Unpack[GenOptions]) -> Each[Any]:
        """A list whose items are handed out as each one closes."""
        return Each.submit(self._told(item, "array", options), items_of(item), options)

    def calls(self, *tools: Tool[..., Any], **options: Unpack[GenOptions]) -> Each[ToolCall]:
        """A plan: typed tool calls, handed out as each one closes."""
        return Each.submit(self._offering(tools), calls_of(tools), options)

    def step(
        self, *, tools: Sequence[Tool[..., Any]], final: TypeForm[T], **options: Unpack[GenOptions]
    ) -> Gen[Calls | Final[T]]:
        """Tool calls, or the final answer: what the model prefers."""
        chat = self._offering(tools)._told(final, "json", options)
        return Gen.submit(chat, step_of(tuple(tools), final), options)

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """Tools that the prompt tells the model of."""
        return self._tools

    def segments(self) -> list[Segment]:
        """The prompt as plain values, with holes for what is still pending."""
        found: list[Segment] = []
        for chat in self.line():
            for piece in chat._pieces:
                if isinstance(piece, Node):
                    found.append(_known(piece, answer=chat._answer is piece))
                else:
                    found.append(piece)
        return found

    def inputs(self) -> tuple[Node[Any], ...]:
        """Nodes whose values the prompt needs, down to its last answer.

        What stands before that answer is needed by the answer itself.
        """
        found: dict[Node[Any], None] = {}
        chat: Chat | None = self
        while chat is not None:
            for piece in reversed(chat._pieces):
                if isinstance(piece, Node):
                    found[piece] = None
            if chat._answer is not None:
                break
            chat = chat._parent
        return tuple(reversed(found))

    def recent(self) -> list[Chat]:
        """This chat and the shorter ones it continues, up to its last answer or its root."""
        found: list[Chat] = [self]
        while found[-1]._answer is None and (parent := found[-1]._parent) is not None:
            found.append(parent)
        return found

    @property
    def answered(self) -> Gen[Any] | None:
        """The last generation that this chat goes on from, or None."""
        return self.recent()[-1]._answer

    def messages(self) -> list[dict[str, Any]]:
        """The chat as a list of messages, for storing it.

        Raises:
            NotYetKnown: A part is still pending.
        """
        return messages_of(self)

    @classmethod
    def of(cls, messages: Iterable[dict[str, Any]]) -> Chat:
        """A chat of messages as `messages` gives them.

        Raises:
            UsageError: Something in them is no message.
        """
        return chat_of(messages)

    def pieces(self) -> list[Piece]:
        """What `segments` is made of, one each."""
        return [piece for link in self.line() for piece in link._pieces]

    def line(self) -> list[Chat]:
        """The chats that this one grew from, the shortest first, and itself."""
        line: list[Chat] = []
        chat: Chat | None = self
        while chat is not None:
            line.append(chat)
            chat = chat._parent
        line.reverse()
        return line

    @property
    def role(self) -> Role | None:
        """Of the message by which this chat is longer than the one it grew from, if it is."""
        first = self._pieces[0] if self._pieces else None
        return first.role if isinstance(first, Open) else None

    @property
    def answer(self) -> Gen[Any] | None:
        """The generation whose answer that message is, or None."""
        return self._answer

    def made_of(self, links: Iterable[Chat]) -> Chat:
        """The last messages of some of the chats in `line`, under the same settings as this one."""
        chat = Chat(tools=self._tools, history=self.history)
        for link in links:
            chat = Chat(chat, link._pieces, answer=link._answer)
        return chat

    def offering(self, tools: tuple[ToolSchema, ...]) -> Chat:
        """This chat, telling the model of these tools and no others."""
        return self if tools == self._tools else Chat(self, tools=tools)

    def rebase(self, prompt: Chat) -> None:
        """The prompt of the answer that this chat ends with did not fit: it grows from `prompt`.

        The only change that a chat ever sees, while its answer is pending.
        """
        self._parent = prompt

    def after(self, answer: Gen[Any]) -> Chat:
        """This chat with the answer that a generation gives."""
        return Chat(self, (_OPEN["assistant"], answer, _CLOSE), answer=answer)

    def extended(self, pieces: tuple[Piece, ...]) -> Chat:
        """This chat with more segments."""
        return Chat(self, pieces)

    def _message(self, role: Role, parts: tuple[Part, ...]) -> Chat:
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
        return Chat(self, tuple(pieces))

    def _told(self, form: Any, place: Place, options: GenOptions) -> Chat:
        """This chat, telling the model of the type at the end of the user's message, if asked."""
        words = description_for(form, place) if options.get("describe") else ""
        if not words:
            return self
        last = next((link for link in reversed(self.line()) if link._pieces), self)
        if last.role != "user":
            return self.user(words)
        pieces = (*last._pieces[:-1], Text(f"\n{words}"), _CLOSE)
        return Chat(last._parent, pieces, tools=self._tools, label=self.label, history=self.history)

    def _offering(self, tools: Sequence[Tool[..., Any]]) -> Chat:
        """This chat, telling the model of these tools too; nothing changes when it knows them."""
        known = {schema.name: schema for schema in self._tools}
        new = [t.spec.schema for t in tools if known.get(t.name) != t.spec.schema]
        if not new:
            return self
        replaced = {schema.name for schema in new}
        kept = tuple(schema for schema in self._tools if schema.name not in replaced)
        return Chat(self, tools=kept + tuple(new))

    def __repr__(self) -> str:
        roles = [p.role for chat in self.line() for p in chat._pieces if isinstance(p, Open)]
        return f"<Chat {' '.join(roles) or 'empty'}>"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return chat_schema()


Chat.__pydantic_serializer__ = ChatSerializer()  # type: ignore[attr-defined]


def chat(
    system: str | None = None,
    *,
    history: History = "template",
    tools: Sequence[Tool[..., Any]] = (),
) -> Chat:
    """An empty chat, or one with a system message. May be a module's value: runs share it.

    Args:
        system: Its first message.
        history: How answers stand in the prompts that follow them. With "template" as the model was
            trained: some templates leave out its earlier reasoning, and what was computed from
            there on is lost, which traces tell with its reason. With "append" just as they were
            generated: every prompt goes on from what was computed.
        tools: That its prompts tell the model of from their beginning. `calls` and `step` may each
            be held to some of them: a mask does that, and the prompt, so its prefix, stays.

    Raises:
        UsageError: `history` is neither.
    """
    if history not in ("template", "append"):
        raise UsageError(
            f"history={history!r} is unknown", hint="Give 'template' or 'append'", where=call_site()
        )
    empty = Chat(history=history)._offering(tools)
    return empty if system is None else empty.system(system)


def _known(node: Node[Any], *, answer: bool) -> Segment:
    """What stands for a node in a prompt, as far as it is known."""
    if not node.done:
        return Hole(node.id, generated=answer)
    if node.error is not None:
        if node.told:
            return Text(f"error: {_why(node.error)}")
        raise node.error
    if answer and isinstance(node, Gen):
        return node.generated
    try:
        return Text(content(node.value))
    except ValueError as error:
        raise UsageError(
            f"the value of {node.label} cannot stand in a prompt: {error}",
            hint="Return text, finite numbers, lists, dicts, dataclasses or pydantic models",
            where=node.site,
        ) from error


def _why(error: Exception) -> str:
    """What a model is told of a tool's failure: what the tool itself said."""
    if isinstance(error, ToolFailed) and error.attempts and error.__cause__ is not None:
        return str(error.__cause__) or type(error.__cause__).__name__
    return getattr(error, "message", "") or str(error)
