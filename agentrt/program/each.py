"""Streams of items, and the tool calls that a model makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agentrt.base.errors import ToolFailed
from agentrt.base.record import record
from agentrt.base.segments import CallMade
from agentrt.program.gen import Gen, OutputReading
from agentrt.program.node import Node, note_wait
from agentrt.program.node_specs import OutputSpec
from agentrt.program.options import GenOptions
from agentrt.program.scope import Scope

if TYPE_CHECKING:
    from agentrt.program.chat import Chat
    from agentrt.program.tool import Tool

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Each(Gen[list[T]]):
    """A list that a model writes, its items handed out as each one closes.

    `async for item in each` gives the items while the rest is being written, any number of times;
    `await each` gives the whole list.
    """

    __slots__ = ("items",)

    def __init__(
        self,
        scope: Scope,
        chat: Chat,
        output: OutputSpec,
        name: str,
        site: str,
        options: GenOptions,
    ) -> None:
        super().__init__(scope, chat, output, name, site, options)
        self.items: list[T] = []

    def __aiter__(self) -> Items[T]:
        return Items(self)

    def add_item(self, item: Any) -> None:
        """The model has closed one more item."""
        self.items.append(item)
        self.changed()


class Items(OutputReading, Generic[T]):
    """One reading of an `Each`."""

    def __init__(self, each: Each[T]) -> None:
        super().__init__(each)
        self._each = each
        self._next = 0

    async def __anext__(self) -> T:
        each, index = self._each, self._next
        if index == len(each.items) and not each.done:
            await self.more(lambda: index < len(each.items))
            note_wait(each, index if index < len(each.items) else None)
        if index < len(each.items):
            self._next += 1
            return each.items[index]
        await self.end()


class ToolCall:
    """A tool call that a model made, with arguments checked against the tool's signature.

    Attributes:
        tool: The tool.
        arguments: By name.
        call: As it stands in the chat.
    """

    __slots__ = ("_node", "_plan", "_plan_item", "_refused", "arguments", "call", "tool")

    def __init__(
        self,
        tool: Tool[..., Any],
        arguments: dict[str, Any],
        call: CallMade,
        plan: Gen[Any],
        plan_item: int,
        refused: ToolFailed | None = None,
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.call = call
        self._plan = plan
        self._plan_item = plan_item
        self._refused = refused
        self._node: Node[Any] | None = None

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.call.name

    def start(self) -> Node[Any]:
        """Start the tool now; started once, however often this is called.

        A tool with effect `write` waits for the end of the generation that asked for it. When the
        tool fails, the model is told so in the chat, and awaiting the node raises.
        """
        if self._node is None:
            self._node = self.tool.start_call(
                self.arguments, self.call, self._plan, self._plan_item, self._refused
            )
        return self._node

    def __repr__(self) -> str:
        return f"<ToolCall {self.call.name}({self.call.arguments_json})>"


@record
class Final(Generic[T_co]):
    """The model gave its final answer.

    Attributes:
        value: The answer.
    """

    value: T_co


@record
class Calls:
    """The model wants tools to run.

    Attributes:
        calls: In the order it made them.
        ctx: The chat after its message.
        content: What it wrote besides.
    """

    calls: tuple[ToolCall, ...]
    ctx: Chat
    content: str = ""

    def run(self) -> Chat:
        """Start every call now; the chat has their results as pending parts, in call order."""
        return self.ctx.results([call.start() for call in self.calls])
