"""Programs and samples as the lines of JSON that go to an arm's process and come back.

Scripts of peers read and write the same without importing anything of ours, so this file is what
they are written against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, Protocol, TypeAlias, TypedDict

from agentrt.lab.workloads.trace import (
    Arrival,
    OutputOf,
    Part,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceNode,
    TraceThink,
    needs,
    seeds,
)


class Spell(Protocol):
    """Makes text of keys; `workloads.text.Speller` does."""

    @property
    def word_letters(self) -> int | None:
        """Letters of each of its words; None where they differ."""
        ...

    def __call__(self, key: str, tokens: int) -> str:
        """A text of so many tokens; equal keys give equal text."""
        ...

    def pattern(self, key: str, tokens: int, forced_tokens: int) -> str:
        """A regular expression for so many tokens, of which so many are given."""
        ...


@dataclass(frozen=True, slots=True)
class Salted:
    """Spells the same keys as other text of the same length.

    Attributes:
        spell: That spells.
        salt: What the text depends on besides.
    """

    spell: Spell
    salt: str

    @property
    def word_letters(self) -> int | None:
        return self.spell.word_letters

    def __call__(self, key: str, tokens: int) -> str:
        return self.spell(f"{self.salt}/{key}", tokens)

    def pattern(self, key: str, tokens: int, forced_tokens: int) -> str:
        return self.spell.pattern(f"{self.salt}/{key}", tokens, forced_tokens)


class TextLine(TypedDict):
    """Part of a message that is known from the start."""

    text: str


class OutputLine(TypedDict):
    """Part of a message: what the call of that name put out."""

    output: str


class ResultLine(TypedDict):
    """Part of a message: what the tool or the person of that name answered."""

    result: str


PartLine: TypeAlias = TextLine | OutputLine | ResultLine
MessageLine: TypeAlias = tuple[str, list[PartLine]]
"""A role (system, user or assistant) and what stands in the message, joined without separator."""


class CallLine(TypedDict):
    """A generation of exactly `tokens` tokens, that no end token ends.

    It is greedy. Calls with one prompt are samples, told apart by a `seed`: each is to be computed,
    not copied from another. Where part of the output is given by its form there is a `pattern`, a
    regular expression; whoever cannot enforce one writes as many tokens freely.
    """

    kind: Literal["call"]
    name: str
    site: str
    needs: list[str]
    messages: list[MessageLine]
    tokens: int
    seed: NotRequired[int]
    pattern: NotRequired[str]


class ToolLine(TypedDict):
    """A tool: a wait of `seconds`, whose answer is `text`.

    It may begin when all of `needs` have ended. Whoever sees the tokens of its plan (which is among
    its needs, or "") may begin when the plan has `at_token` of them, where that is above 0.
    """

    kind: Literal["tool"]
    name: str
    site: str
    needs: list[str]
    seconds: float
    plan: str
    at_token: int
    text: str


class ThinkLine(TypedDict):
    """A person's pause of `seconds`, then their `text` ("" where nothing quotes it)."""

    kind: Literal["think"]
    name: str
    needs: list[str]
    seconds: float
    text: str


NodeLine: TypeAlias = CallLine | ToolLine | ThinkLine


class QuorumLine(TypedDict):
    """When `least` of the calls `names` have ended, the others are given up."""

    names: list[str]
    least: int


class ProgramLine(TypedDict):
    """A program: nodes in a topological order; its end is when all of `result` have ended.

    A quorum, where there is one, has to be reached as well. `service_s` is what it takes of an
    engine, where it was played before: for the policy "oracle" alone.
    """

    name: str
    shape: str
    tenant: str
    at_s: float
    nodes: list[NodeLine]
    result: list[str]
    quorum: QuorumLine | None
    service_s: NotRequired[float]


class CallTold(TypedDict):
    """What became of a call; instants are seconds from the beginning of the play.

    Attributes:
        first_s: When its first token was there; None where the client cannot tell.
        prompt_tokens: As the engine counts, its template included; None where it does not tell.
        cached_tokens: Of those, found and not computed; None where the engine does not tell.
        output_tokens: As the engine counts.
        output: Its text.
        held_s: That an admission gate held it back, from those who know it.
    """

    name: str
    began_s: float
    first_s: float | None
    ended_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int
    output: str
    held_s: NotRequired[float]


class WaitTold(TypedDict):
    """What became of a tool or a pause."""

    name: str
    began_s: float
    ended_s: float


class ProgramTold(TypedDict):
    """What became of a program.

    Attributes:
        arrived_s: When it was due: its latency counts from here, whenever it really began.
        ended_s: When its result was in the hands of the caller.
        given_up: Calls that a quorum made needless before they ended.
        error: What went wrong, or "".
        split: Seconds of the critical path by what was waited for, from those who know it.
        wasted_tokens: Computed for calls that were given up, from those who know it.
    """

    name: str
    arrived_s: float
    ended_s: float
    calls: list[CallTold]
    waits: list[WaitTold]
    given_up: list[str]
    error: str
    split: NotRequired[dict[str, float]]
    wasted_tokens: NotRequired[int]


StepTold: TypeAlias = tuple[float, int, int, int, float, float | None, int]
"""A step of the engine: its seconds, prompt tokens computed, sequences decoded, tokens whose KV it
read, when it began, the seconds between the step before and it (None where the engine may have had
nothing to do then), and how many requests had no place in it."""


def program_line(arrival: Arrival, spell: Spell) -> ProgramLine:
    """A program as an arm is asked to play it.

    Args:
        arrival: What, and when.
        spell: Makes text of keys.
    """
    program = arrival.program
    quorum: QuorumLine | None = None
    if program.quorum is not None:
        quorum = {"names": list(program.quorum[0]), "least": program.quorum[1]}
    lengths = {
        part.tool: part.tokens
        for call in program.calls()
        for _, message in call.prompt
        for part in message
        if not isinstance(part, Piece | OutputOf)
    }
    sampled = seeds(program)
    return {
        "name": program.name,
        "shape": program.shape,
        "tenant": program.tenant,
        "at_s": arrival.at_s,
        "nodes": [_node(program, node, lengths, sampled, spell) for node in program.nodes],
        "result": list(program.result),
        "quorum": quorum,
    }


def _node(
    program: ProgramTrace,
    node: TraceNode,
    lengths: dict[str, int],
    sampled: dict[str, int],
    spell: Spell,
) -> NodeLine:
    waits = list(needs(node))
    if isinstance(node, TraceCall):
        messages: list[MessageLine] = [
            (role, _parts(message, spell)) for role, message in node.prompt
        ]
        call: CallLine = {
            "kind": "call",
            "name": node.name,
            "site": node.site,
            "needs": waits,
            "messages": messages,
            "tokens": node.output_tokens,
        }
        if node.name in sampled:
            call["seed"] = sampled[node.name]
        if node.forced_tokens and spell.word_letters is not None:
            key = f"{program.shape}/{node.site}/form"  # the same form in every program
            call["pattern"] = spell.pattern(key, node.output_tokens, node.forced_tokens)
        return call
    length = lengths.get(node.name, 0)
    text = spell(f"{program.name}/{node.name}", length) if length else ""
    if isinstance(node, TraceThink):
        return {
            "kind": "think",
            "name": node.name,
            "needs": waits,
            "seconds": node.seconds,
            "text": text,
        }
    assert isinstance(node, ToolUse)
    return {
        "kind": "tool",
        "name": node.name,
        "site": node.site,
        "needs": waits,
        "seconds": node.seconds,
        "plan": node.plan,
        "at_token": node.at_token,
        "text": text,
    }


def _parts(message: Sequence[Part], spell: Spell) -> list[PartLine]:
    found: list[PartLine] = []
    for part in message:
        if isinstance(part, Piece):
            found.append({"text": spell(part.key, part.tokens)})
        elif isinstance(part, OutputOf):
            found.append({"output": part.call})
        else:
            found.append({"result": part.tool})
    return found
