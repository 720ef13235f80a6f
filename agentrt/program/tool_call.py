"""Tool calls that a model makes, and the final answer that it may give instead."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from agentrt.base.errors import ToolFailed
from agentrt.base.record import record
from agentrt.base.segments import CallMade
from agentrt.program.node import Node
from agentrt.program.tool import Tool

T_co = TypeVar("T_co", covariant=True)


class ToolCall:
    """A tool call that a model made, with arguments checked against the signature of the tool.

    `chat.calls(...)` and `chat.step(...)` give them. Start each as it comes, so that tools run
    while the model still writes its plan.

    Example:
        >>> from agentrt import chat, program, tool
        >>> @tool(effects="pure")
        ... def price(symbol: str) -> float:
        ...     return {"IBM": 98.5, "AAPL": 171.0}[symbol]
        >>> @program
        ... async def worth() -> list[float]:
        ...     plan = chat().user("What are IBM and AAPL worth?").calls(price)
        ...     started = [call.start() async for call in plan]
        ...     return [await node for node in started]
        >>> worth.run()
        [98.5, 171.0]

    Attributes:
        tool: The tool.
        arguments: The arguments by name.
        call: The call as it stands in the chat.
    """

    __slots__ = ("_node", "_plan", "_plan_item", "_refused", "arguments", "call", "tool")

    def __init__(
        self,
        tool: Tool[..., Any],
        arguments: dict[str, Any],
        call: CallMade,
        plan: Node[Any],
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
        """Start the tool now; a second call gives the same node.

        A tool with effect `write` waits for the end of the generation that asked for it. If the
        tool fails, its failure stands in the chat as text, and awaiting the node raises it.
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
    """The final answer of a model that could also have called tools.

    `chat.step(...)` gives this or `Calls`; match on the two.

    Example:
        >>> from agentrt import Final
        >>> match Final(42):
        ...     case Final(value):
        ...         print(value)
        42

    Attributes:
        value: The answer.
    """

    value: T_co
