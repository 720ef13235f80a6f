"""Segments joined into messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentrt.base.errors import UsageError
from agentrt.base.segments import CallMade, Close, Generated, Hole, Open, ResultOf, Segment, Text
from agentrt.prompt.message_form import Turn


@dataclass(frozen=True, slots=True)
class SegmentTurn:
    """A message and the origin of its text.

    Attributes:
        turn: The message.
        generated: Generated parts of it.
        start: Index of its `Open` among the segments.
        closed: Whether it has ended.
    """

    turn: Turn
    generated: tuple[Generated, ...]
    start: int
    closed: bool = False


def turns_of(segments: Sequence[Segment]) -> list[SegmentTurn]:
    """The messages of a chat; holes show as `[node]`.

    Raises:
        UsageError: The segments do not form messages.
    """
    found: list[SegmentTurn] = []
    for index, segment in enumerate(segments):
        if isinstance(segment, Open):
            if found and not found[-1].closed:
                raise UsageError("a message opens inside another", hint="Close it first")
            found.append(SegmentTurn(Turn(segment.role, ""), (), index))
            continue
        if not found or found[-1].closed:
            name = type(segment).__name__
            raise UsageError(f"{name} outside a message", hint="Open a message first")
        found[-1] = _with_segment(found[-1], segment)
    return found


def _with_segment(message: SegmentTurn, segment: Segment) -> SegmentTurn:
    turn = message.turn
    match segment:
        case Text(text):
            turn = replace(turn, text=turn.text + text)
        case Hole(node):
            turn = replace(turn, text=f"{turn.text}[{node}]")
        case Generated():
            text = segment.thinking + segment.content if segment.calls else segment.text
            turn = replace(turn, text=turn.text + text, calls=turn.calls + segment.calls)
            return replace(message, turn=turn, generated=(*message.generated, segment))
        case CallMade():
            turn = replace(turn, calls=(*turn.calls, segment))
        case ResultOf(call_id, name):
            turn = replace(turn, call_id=call_id, name=name)
        case Close():
            return replace(message, closed=True)
    return replace(message, turn=turn)
