"""The content of one run's nodes, as far as observers want it; most runs pay for none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentrt.base.ids import RunId
from agentrt.program import Node
from agentrt.protocol.events import AttributeValue

if TYPE_CHECKING:
    from agentrt.protocol.node_content import NodeContent
    from agentrt.runtime.content_capture import ToldPrompts


class RunContent:
    """The content of the nodes of one run. What makes it is imported while a request is under way.

    Args:
        in_events: Whether events carry it as attributes of spans.
        on_content: Takes the content of each node that ends, or None.
    """

    __slots__ = ("_in_events", "_on_content", "_told")

    def __init__(
        self, *, in_events: bool, on_content: Callable[[NodeContent], None] | None
    ) -> None:
        self._in_events = in_events
        self._on_content = on_content
        self._told: ToldPrompts | None = None

    def tell(self, run_id: RunId, node: Node[Any], finish_reason: str) -> dict[str, AttributeValue]:
        """Hand on the content of a node that has ended, to observers that take it.

        Returns:
            The content as attributes of the node's span; {} if events carry none.
        """
        if self._on_content is not None:
            if self._told is None:
                from agentrt.runtime.content_capture import ToldPrompts

                self._told = ToldPrompts()
            self._on_content(self._told.content_of(run_id, node))
        if not self._in_events:
            return {}
        from agentrt.runtime.message_capture import captured_content

        return captured_content(node, finish_reason)
