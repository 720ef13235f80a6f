"""Events of a started run for its caller: what a user interface shows, as typed values.

Instants are seconds of the runtime's clock. A node is named by its path in the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.ids import NodeId
from agentrt.base.record import record
from agentrt.protocol.events import NodeKind, Outcome


@record
class NodeStarted:
    """A node was made: a generation, a tool call, a program or a question.

    Example:
        >>> from agentrt import NodeStarted
        >>> started = NodeStarted("tell#0", "tell", "program", None, "tell.py:7", at_s=2.0)
        >>> f"{started.kind} {started.name} at {started.site}"
        'program tell at tell.py:7'

    Attributes:
        node_id: Path of the node.
        name: Name of the node.
        kind: Kind of the node.
        parent: Program in which it was made; None for the program of the run.
        site: `file:line` in the user's program.
        at_s: Instant.
    """

    node_id: NodeId
    name: str
    kind: NodeKind
    parent: NodeId | None
    site: str
    at_s: float


@record
class TextWritten:
    """Text of a generation; all of it that came since the last one was read.

    Example:
        >>> from agentrt import TextWritten
        >>> event = TextWritten("tell#0/draft#0", "draft", "The Nile")
        >>> event.text if event.name == "draft" and not event.thinking else ""
        'The Nile'

    Attributes:
        node_id: Path of the generation.
        name: Name of the node.
        text: The text.
        thinking: Whether it is reasoning before the answer.
    """

    node_id: NodeId
    name: str
    text: str
    thinking: bool = False


@record
class TextWithdrawn:
    """The text of a generation so far does not stand: another attempt follows.

    Example:
        >>> from agentrt import TextWithdrawn
        >>> shown = {"tell#0/draft#0": "The Rhi"}
        >>> event = TextWithdrawn("tell#0/draft#0", "draft")
        >>> shown[event.node_id] = ""

    Attributes:
        node_id: Path of the generation.
        name: Name of the node.
    """

    node_id: NodeId
    name: str


@record
class ItemWritten:
    """A value of a streamed answer is complete.

    Example:
        >>> from agentrt import ItemWritten
        >>> event = ItemWritten("tell#0/rivers#0", "rivers", index=0, value="Nile")
        >>> f"{event.index + 1}. {event.value}"
        '1. Nile'

    Attributes:
        node_id: Path of the generation.
        name: Name of the node.
        index: Index of the value.
        value: An item of `each`, a `ToolCall` of `calls`, a `Tagged` of `tagged`.
    """

    node_id: NodeId
    name: str
    index: int
    value: Any


@record
class TextEmitted:
    """Text that the program gave its caller by `emit`.

    Example:
        >>> from agentrt import TextEmitted
        >>> "".join(event.text for event in [TextEmitted("The "), TextEmitted("Nile")])
        'The Nile'

    Attributes:
        text: The text.
    """

    text: str


@record
class ToolCalled:
    """An attempt of a tool began to run.

    Example:
        >>> from agentrt import ToolCalled
        >>> arguments = {"symbol": "IBM"}
        >>> event = ToolCalled("worth#0/price#0", "price", arguments, 1, by_model=True, at_s=2.0)
        >>> f"calling {event.name} for {event.arguments['symbol']}"
        'calling price for IBM'

    Attributes:
        node_id: Path of the call.
        name: Name of the tool.
        arguments: Arguments by name, without those that are bound.
        attempt: Number of the attempt, from 1.
        by_model: Whether a model made the call.
        at_s: Instant.
    """

    node_id: NodeId
    name: str
    arguments: Mapping[str, Any]
    attempt: int
    by_model: bool
    at_s: float


@record
class ToolReturned:
    """A tool call has its result or its error.

    Example:
        >>> from agentrt import ToolReturned
        >>> event = ToolReturned("worth#0/price#0", "price", 98.5, error=None, at_s=3.0)
        >>> event.error or event.value
        98.5

    Attributes:
        node_id: Path of the call.
        name: Name of the tool.
        value: The result; None with an error.
        error: The error, or None.
        at_s: Instant.
    """

    node_id: NodeId
    name: str
    value: Any
    error: Exception | None
    at_s: float


@record
class NodeEnded:
    """A node has its value or its error, or was cancelled.

    Example:
        >>> from agentrt import NodeEnded
        >>> event = NodeEnded("tell#0", "tell", "program", "ok", error=None, at_s=3.0)
        >>> f"{event.name}: {event.outcome}"
        'tell: ok'

    Attributes:
        node_id: Path of the node.
        name: Name of the node.
        kind: Kind of the node.
        outcome: Kind of its end.
        error: The error, or None.
        at_s: Instant.
    """

    node_id: NodeId
    name: str
    kind: NodeKind
    outcome: Outcome
    error: Exception | None
    at_s: float


@record
class EventsLost:
    """Events that were not read in time, before those that follow.

    Example:
        >>> from agentrt import EventsLost
        >>> f"{EventsLost(12).count} events were not read in time"
        '12 events were not read in time'

    Attributes:
        count: Number of events.
    """

    count: int


@record
class RunEnded:
    """The run has its result; the last event of a run that did not fail.

    Example:
        >>> from agentrt import RunEnded
        >>> RunEnded("Nile").value
        'Nile'

    Attributes:
        value: The result.
    """

    value: Any


RunEvent = (
    NodeStarted
    | TextWritten
    | TextWithdrawn
    | ItemWritten
    | TextEmitted
    | ToolCalled
    | ToolReturned
    | NodeEnded
    | EventsLost
    | RunEnded
)
"""An event of a started run."""
