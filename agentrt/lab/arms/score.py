"""A program's line made ready to be played: what waits for what, and prompts as keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from agentrt.base.record import record
from agentrt.lab.arms.wire import (
    CallLine,
    NodeLine,
    OutputLine,
    ProgramLine,
    ResultLine,
    TextLine,
    ThinkLine,
    ToolLine,
)

PartKey: TypeAlias = tuple[str, str]
"""`text`, `output` or `result`, and the text or the name."""
MessageKey: TypeAlias = tuple[str, tuple[PartKey, ...]]


@record
class ScoredCall:
    """A call, its messages hashable.

    Attributes:
        line: As it was asked for.
        messages: Of its prompt.
        quoted: Nodes that they quote, which may be pending when it is declared.
        after: What must have ended before it is declared.
    """

    line: CallLine
    messages: tuple[MessageKey, ...]
    quoted: tuple[str, ...]
    after: tuple[str, ...]


@record
class ScoredWait:
    """A tool or a pause.

    Attributes:
        name: Of the node.
        site: Of the tool; "pause" of a pause.
        seconds: That it takes.
        text: What it answers.
        plan: The call that asked for it, or "".
        at_token: Of the plan, after which it may begin; 0 at its end.
        after: What must have ended before, its plan left out where it may begin within it.
    """

    name: str
    site: str
    seconds: float
    text: str
    plan: str
    at_token: int
    after: tuple[str, ...]


Scored: TypeAlias = ScoredCall | ScoredWait


@record
class ProgramScore:
    """A program, ready.

    Attributes:
        line: As it was asked for.
        nodes: In its order.
        result: Names that its end waits for.
        quorum: Names of a vote and how many of them suffice, or none and 0.
    """

    line: ProgramLine
    nodes: tuple[Scored, ...]
    result: tuple[str, ...]
    quorum: tuple[tuple[str, ...], int]


def score_of(line: ProgramLine) -> ProgramScore:
    """A line made ready; nothing is looked up while it is played."""
    quorum = line["quorum"]
    vote = (tuple(quorum["names"]), quorum["least"]) if quorum else ((), 0)
    nodes = tuple(_scored(node) for node in line["nodes"])
    return ProgramScore(line, nodes, tuple(line["result"]), vote)


def _scored(node: NodeLine) -> Scored:
    if node["kind"] == "call":
        return _call(node)
    if node["kind"] == "think":
        return _wait(node, "pause", "", 0)
    return _wait(node, node["site"], node["plan"], node["at_token"])


def _call(node: CallLine) -> ScoredCall:
    messages = tuple(
        (role, tuple(_part(part) for part in parts)) for role, parts in node["messages"]
    )
    quoted = dict.fromkeys(name for _, parts in messages for kind, name in parts if kind != "text")
    after = tuple(name for name in node["needs"] if name not in quoted)
    return ScoredCall(node, messages, tuple(quoted), after)


def _wait(node: ToolLine | ThinkLine, site: str, plan: str, at_token: int) -> ScoredWait:
    after = tuple(name for name in node["needs"] if not (at_token and name == plan))
    return ScoredWait(node["name"], site, node["seconds"], node["text"], plan, at_token, after)


def _part(part: TextLine | OutputLine | ResultLine) -> PartKey:
    ((kind, text),) = cast(Mapping[str, str], part).items()
    return kind, text
