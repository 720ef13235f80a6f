"""Programs and samples as the lines of JSON that go to an arm's process and come back.

The peers' scripts read and write the same without importing anything of agentrt, so this file is
their contract.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict
from zlib import crc32

from agentrt.lab.workloads.text import TextSpeller
from agentrt.lab.workloads.trace import (
    Arrival,
    OutputOf,
    Part,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceNode,
    TraceResult,
    needs,
    parts,
    seeds,
)

PartLine: TypeAlias = dict[Literal["text", "output", "result"], str]
"""Part of a message: text that is known from the start, the output of the call of that name, or the
answer of the tool or person of that name."""
MessageLine: TypeAlias = tuple[str, list[PartLine]]
"""A role (system, user or assistant) and the parts of the message, joined without separator."""


class CallLine(TypedDict):
    """A generation of exactly `tokens` tokens, which no end token ends.

    It is greedy. Calls with one prompt are samples with a `seed` each: they are to be computed, not
    copied from each other. `limit` is the most tokens that the program allows, if not just
    `tokens`. `service_s` is the time that it takes of an engine, if known; only policies that
    foresee are given it. If part of the output is given by its form there is a `pattern`, a regular
    expression; an arm that cannot enforce one writes as many tokens freely. A recorded `output` is
    what the engine of the arm must write (`EngineConfig.replay`).
    """

    kind: Literal["call"]
    name: str
    site: str
    needs: list[str]
    messages: list[MessageLine]
    tokens: int
    limit: NotRequired[int]
    service_s: NotRequired[float]
    seed: NotRequired[int]
    pattern: NotRequired[str]
    output: NotRequired[str]


class WaitLine(TypedDict):
    """A wait of `seconds`, then the answer `text` ("" if nothing quotes it)."""

    name: str
    needs: list[str]
    seconds: float
    text: str


class ToolLine(WaitLine):
    """A tool, which may begin when all of `needs` have ended.

    An arm that sees the tokens of its plan (one of its needs, or "") may begin it once the plan has
    `at_token` of them, if that is above 0.
    """

    kind: Literal["tool"]
    site: str
    plan: str
    at_token: int


class ThinkLine(WaitLine):
    """A person's pause."""

    kind: Literal["think"]


NodeLine: TypeAlias = CallLine | ToolLine | ThinkLine


class QuorumLine(TypedDict):
    """Once `least` of the calls `names` have ended, the others are given up."""

    names: list[str]
    least: int


class ProgramLine(TypedDict):
    """A program: nodes in a topological order; it ends when all of `result` have ended.

    A quorum, if there is one, has to be reached as well. `kv_tokens` is the peak of its KV and its
    longest context, if they are known: for the policy "clairvoyant" alone.
    """

    name: str
    shape: str
    tenant: str
    at_s: float
    nodes: list[NodeLine]
    result: list[str]
    quorum: QuorumLine | None
    kv_tokens: NotRequired[tuple[float, float]]


class CallSample(TypedDict):
    """A call as it was played; instants are seconds from the beginning of the play.

    Attributes:
        first_s: Instant of its first token; None if the client does not see it.
        prompt_tokens: Tokens as the engine counts, template included; None if it does not report.
        cached_tokens: Prompt tokens found in the cache; None if the engine does not report them.
        output_tokens: Tokens as the engine counts.
        output: Text.
        held_s: Seconds for which an admission gate held it, if the arm has one.
        forced_tokens: Output tokens that a grammar forced, if the arm knows them.
        drafted_tokens: Output tokens that were guessed and kept, if the arm knows them.
        drafts: The same by the source of the guess.
        late_tokens: Prompt tokens left to compute when all of the prompt was known, if the arm
            knows them.
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
    forced_tokens: NotRequired[int]
    drafted_tokens: NotRequired[int]
    drafts: NotRequired[dict[str, int]]
    late_tokens: NotRequired[int]


class WaitSample(TypedDict):
    """A tool or a pause as it was played."""

    name: str
    began_s: float
    ended_s: float


class ProgramSample(TypedDict):
    """A program as it was played.

    Attributes:
        arrived_s: Instant at which it was due: its latency counts from here, whenever it began.
        ended_s: Instant at which the caller had its result.
        given_up: Calls that a quorum made needless before they ended.
        error: Message of the error that ended it, or "".
        split: Seconds of the critical path by label, if the arm knows them.
        wasted_tokens: Tokens computed for calls that were given up, if the arm knows them.
    """

    name: str
    arrived_s: float
    ended_s: float
    calls: list[CallSample]
    waits: list[WaitSample]
    given_up: list[str]
    error: str
    split: NotRequired[dict[str, float]]
    wasted_tokens: NotRequired[int]


def program_line(arrival: Arrival, spell: TextSpeller) -> ProgramLine:
    """A program on the wire.

    Args:
        arrival: The program and its instant.
        spell: Spells the keys of its pieces.
    """
    program = arrival.program
    quorum: QuorumLine | None = None
    if program.quorum is not None:
        quorum = {"names": list(program.quorum[0]), "least": program.quorum[1]}
    lengths = {
        part.tool: part.tokens
        for call in program.calls()
        for part in parts(call)
        if isinstance(part, TraceResult)
    }
    sampled = seeds(program)

    def line(node: TraceNode) -> NodeLine:
        if isinstance(node, TraceCall):
            call = _call_line(program, node, spell)
            if node.name in sampled:
                call["seed"] = sampled[node.name]
                if "output" in call:  # prompts of other programs may be equal, their outputs differ
                    call["seed"] = crc32(f"{call['seed']}{call['output']}".encode())
            return call
        length = lengths.get(node.name, 0)
        wait: WaitLine = {
            "name": node.name,
            "needs": list(needs(node)),
            "seconds": node.seconds,
            "text": spell(f"{program.name}/{node.name}", length) if length else "",
        }
        if not isinstance(node, ToolUse):
            return {"kind": "think", **wait}
        plan, at_token = node.plan, node.at_token
        return {"kind": "tool", "site": node.site, "plan": plan, "at_token": at_token, **wait}

    return {
        "name": program.name,
        "shape": program.shape,
        "tenant": program.tenant,
        "at_s": arrival.at_s,
        "nodes": [line(node) for node in program.nodes],
        "result": list(program.result),
        "quorum": quorum,
    }


def _call_line(program: ProgramTrace, node: TraceCall, spell: TextSpeller) -> CallLine:
    call: CallLine = {
        "kind": "call",
        "name": node.name,
        "site": node.site,
        "needs": list(needs(node)),
        "messages": [
            (role, [_part(part, spell) for part in message]) for role, message in node.prompt
        ],
        "tokens": node.output_tokens,
    }
    if pattern := spell.form(program, node):
        call["pattern"] = pattern
    if output := spell.output(program, node):
        call["output"] = output
    return call


def _part(part: Part, spell: TextSpeller) -> PartLine:
    if isinstance(part, Piece):
        return {"text": spell(part.key, part.tokens)}
    return {"output": part.call} if isinstance(part, OutputOf) else {"result": part.tool}
