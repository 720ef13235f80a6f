"""A program of the wire made ready to be played: dependencies, and prompts as hashable keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from agentrt.base.record import record
from agentrt.lab.arms.wire import CallLine, NodeLine, PartLine, ProgramLine

PartKey: TypeAlias = tuple[str, str]
"""`text`, `output` or `result`, and the text or the name."""
MessageKey: TypeAlias = tuple[str, tuple[PartKey, ...]]


@record
class ScoredCall:
    """A call with hashable messages.

    Attributes:
        line: The call on the wire.
        messages: Messages of its prompt.
        quoted: Nodes that the messages quote, which may be pending when it is declared.
        after: Nodes that must have ended before it is declared.
    """

    line: CallLine
    messages: tuple[MessageKey, ...]
    quoted: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.line["name"]


@record
class ScoredWait:
    """A tool or a pause.

    Attributes:
        name: Name of the node.
        seconds: Duration.
        text: Answer.
        plan: Call that writes its arguments, or "".
        at_token: Tokens of the plan after which it may begin; 0 waits for the plan's end.
        after: Nodes that must have ended before, without the plan if it may begin within that.
    """

    name: str
    seconds: float
    text: str
    plan: str
    at_token: int
    after: tuple[str, ...]


Scored: TypeAlias = ScoredCall | ScoredWait


@record
class ProgramScore:
    """A program, ready to be played.

    Attributes:
        line: The program on the wire.
        nodes: Nodes in its order.
        result: Nodes that end the program.
        quorum: Names of a vote and how many of them suffice, or none and 0.
    """

    line: ProgramLine
    nodes: tuple[Scored, ...]
    result: tuple[str, ...]
    quorum: tuple[tuple[str, ...], int]


def score_of(line: ProgramLine) -> ProgramScore:
    """Make a program ready, so that nothing is looked up while it is played."""
    quorum = line["quorum"]
    vote = (tuple(quorum["names"]), quorum["least"]) if quorum else ((), 0)
    nodes = tuple(_scored(node) for node in line["nodes"])
    return ProgramScore(line, nodes, tuple(line["result"]), vote)


def _scored(node: NodeLine) -> Scored:
    if node["kind"] == "call":
        return _call(node)
    plan, at_token = (node["plan"], node["at_token"]) if node["kind"] == "tool" else ("", 0)
    after = tuple(name for name in node["needs"] if not (at_token and name == plan))
    return ScoredWait(node["name"], node["seconds"], node["text"], plan, at_token, after)


def _call(node: CallLine) -> ScoredCall:
    messages = tuple(
        (role, tuple(_part(part) for part in parts)) for role, parts in node["messages"]
    )
    quoted = dict.fromkeys(name for _, parts in messages for kind, name in parts if kind != "text")
    after = tuple(name for name in node["needs"] if name not in quoted)
    return ScoredCall(node, messages, tuple(quoted), after)


def _part(part: PartLine) -> PartKey:
    ((kind, text),) = cast(Mapping[str, str], part).items()
    return kind, text
