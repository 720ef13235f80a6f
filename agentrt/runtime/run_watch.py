"""The watch over one started run: makes events for its caller, and keeps those that are unread."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.ids import NodeId
from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.program import Each, Gen, Node, Tagged, TaggedText, ToolWork
from agentrt.protocol.events import (
    Event,
    EventOfNode,
    ItemClosed,
    NodeDeclared,
    NodeFinished,
    ToolStarted,
)
from agentrt.runtime.run_events import (
    EventsLost,
    ItemWritten,
    NodeEnded,
    NodeStarted,
    RunEnded,
    RunEvent,
    TextEmitted,
    TextWithdrawn,
    TextWritten,
    ToolCalled,
    ToolReturned,
)


@record
class UnreadText:
    """Text of a generation that waits to be read, and to which more is added meanwhile.

    Attributes:
        node_id: The generation.
        name: Name of the node.
        thinking: Whether it is reasoning.
        pieces: The text.
    """

    node_id: NodeId
    name: str
    thinking: bool
    pieces: list[str]


@dataclass(slots=True, eq=False)
class WatchedText:
    """A generation that has not ended, and how much of its text is told.

    Attributes:
        gen: The generation.
        chunks: The answer when it was last looked at; another list if that was dropped since.
        reasoning: The reasoning, likewise.
        answer: Number of chunks of the answer.
        thinking: Number of chunks of the reasoning.
    """

    gen: Gen[Any]
    chunks: list[str]
    reasoning: list[str]
    answer: int = 0
    thinking: int = 0


@dataclass(slots=True, eq=False)
class RunWatch:
    """Events of one run for one reader.

    Texts of a generation that wait to be read are joined to one event. Of more than `most` events
    the oldest are dropped and counted. Nothing here keeps the run waiting.

    Attributes:
        most: Most events that wait to be read.
        changed: Rings when there is more to read.
    """

    most: int
    changed: Notifier = field(default_factory=Notifier)
    _events: deque[RunEvent | UnreadText] = field(default_factory=deque)
    _lost: int = 0
    _nodes: dict[NodeId, Node[Any]] = field(default_factory=dict)
    _texts: dict[NodeId, WatchedText] = field(default_factory=dict)
    _unread: dict[NodeId, UnreadText] = field(default_factory=dict)

    def take(self) -> RunEvent | None:
        """The next event, or None if there is none yet."""
        if self._lost:
            lost, self._lost = self._lost, 0
            return EventsLost(lost)
        if not self._events:
            return None
        event = self._events.popleft()
        if not isinstance(event, UnreadText):
            return event
        self._close_text(event)
        return TextWritten(event.node_id, event.name, "".join(event.pieces), event.thinking)

    def declare(self, node: Node[Any]) -> None:
        """Take a node that was just made; its event follows."""
        self._nodes[node.id] = node

    def emit(self, text: str) -> None:
        """Take text that the program emits."""
        self._put(TextEmitted(text))

    def end(self, value: Any) -> None:
        """Take the result of the run."""
        self._put(RunEnded(value))

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events, those of other runs among them."""
        for event in events:
            node = self._nodes.get(event.node_id) if isinstance(event, EventOfNode) else None
            if node is not None:
                self._take_event(event, node)
        for text in self._texts.values():
            self._tell_text(text)

    def _take_event(self, event: Event, node: Node[Any]) -> None:
        match event:
            case NodeDeclared():
                if isinstance(node, Gen):
                    self._texts[node.id] = WatchedText(
                        node, node.written.chunks, node.written.reasoning
                    )
                parent, at_s = event.parent, event.at_s
                self._put(NodeStarted(node.id, node.name, node.kind, parent, node.site, at_s))
            case ToolStarted(attempt=attempt, at_s=at_s):
                work = node.work
                assert isinstance(work, ToolWork)
                by_model = work.call is not None
                self._put(
                    ToolCalled(node.id, node.name, work.arguments, attempt, by_model, at_s), node.id
                )
            case ItemClosed(index=index):
                self._tell_text(self._texts[node.id])
                value = _items(node)[index]
                self._put(ItemWritten(node.id, node.name, index, value), node.id)
            case NodeFinished():
                self._finish(event, node)
            case _:
                pass

    def _finish(self, event: NodeFinished, node: Node[Any]) -> None:
        del self._nodes[node.id]
        text = self._texts.pop(node.id, None)
        if text is not None:
            self._tell_text(text)
        error, at_s = node.error, event.at_s
        if node.kind == "tool":
            value = node.value if error is None else None
            self._put(ToolReturned(node.id, node.name, value, error, at_s))
        ended = NodeEnded(node.id, node.name, node.kind, event.outcome, error, at_s)
        self._put(ended, node.id)

    def _tell_text(self, text: WatchedText) -> None:
        """Tell what a generation has written since, without marking it as seen by the program."""
        gen, written = text.gen, text.gen.written
        if written.chunks is not text.chunks or written.reasoning is not text.reasoning:
            text.chunks, text.reasoning = written.chunks, written.reasoning
            text.answer = text.thinking = 0
            self._put(TextWithdrawn(gen.id, gen.name), gen.id)
        if len(written.reasoning) > text.thinking:
            self._put_text(gen, written.reasoning[text.thinking :], thinking=True)
            text.thinking = len(written.reasoning)
        if len(written.chunks) > text.answer:
            self._put_text(gen, written.chunks[text.answer :], thinking=False)
            text.answer = len(written.chunks)

    def _put_text(self, gen: Gen[Any], pieces: list[str], *, thinking: bool) -> None:
        unread = self._unread.get(gen.id)
        if unread is not None and unread.thinking == thinking:
            unread.pieces.extend(pieces)
            return
        unread = UnreadText(gen.id, gen.name, thinking, pieces)
        self._put(unread, gen.id)
        self._unread[gen.id] = unread

    def _put(self, event: RunEvent | UnreadText, node_id: NodeId | None = None) -> None:
        if node_id is not None:
            self._unread.pop(node_id, None)  # what it writes from now on comes behind this event
        if len(self._events) >= self.most:
            oldest = self._events.popleft()
            self._lost += 1
            if isinstance(oldest, UnreadText):
                self._close_text(oldest)
        self._events.append(event)
        self.changed.notify_all()

    def _close_text(self, text: UnreadText) -> None:
        if self._unread.get(text.node_id) is text:
            del self._unread[text.node_id]


def _items(node: Node[Any]) -> list[Any]:
    """Values of a streamed answer so far."""
    if isinstance(node, TaggedText):
        return [piece for piece in node.pieces if isinstance(piece, Tagged)]
    assert isinstance(node, Each)
    return node.items
