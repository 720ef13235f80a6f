"""What samples of programs say: latency, what the cache saved, what was wasted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentrt.lab.arms.wire import ProgramLine, ProgramTold
from agentrt.lab.errors import BenchFailed


@dataclass(frozen=True, slots=True)
class PlayedProgram:
    """One program, played once by one arm.

    Attributes:
        name: Of the program.
        shape: Of it.
        tenant: On whose behalf.
        latency_s: From its arrival to its result, people's pauses left out.
        tools_s: Of that, while tools and no call were under way.
        prompt_tokens: Over all calls that ended, as the engine counts; None where it does not tell.
        cached_tokens: Of those, found; None where it does not tell.
        output_tokens: By call, in the order of their names.
        output_hash: Of all texts.
        wasted_tokens: Produced by calls that were given up; None where nobody knows.
        split: Seconds of the critical path by label; {} where nobody knows.
        arrived_s: When it was due, from the beginning of the play.
        ended_s: When its result was there.
        kept_tokens: That were computed for it and could be kept, on average from its arrival to its
            end; None where the engine does not tell.
    """

    name: str
    shape: str
    tenant: str
    latency_s: float
    tools_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: dict[str, int]
    output_hash: str
    wasted_tokens: int | None
    split: dict[str, float]
    arrived_s: float
    ended_s: float
    kept_tokens: float | None


def played(line: ProgramLine, told: ProgramTold, *, arm: str) -> PlayedProgram:
    """The figures of one sample.

    Raises:
        BenchFailed: The arm did not do the work that was asked for.
    """
    check_work(line, told, arm=arm)
    calls = told["calls"]
    asked = [call["prompt_tokens"] for call in calls]
    cached = [call["cached_tokens"] for call in calls]
    texts = sorted((call["name"], call["output"]) for call in calls)
    return PlayedProgram(
        name=line["name"],
        shape=line["shape"],
        tenant=line["tenant"],
        latency_s=told["ended_s"] - told["arrived_s"] - _pauses_s(line, told),
        tools_s=_tools_s(line, told),
        prompt_tokens=_sum(asked),
        cached_tokens=_sum(cached),
        output_tokens={call["name"]: call["output_tokens"] for call in calls},
        output_hash=hashlib.sha256(repr(texts).encode()).hexdigest()[:16],
        wasted_tokens=told.get("wasted_tokens", 0 if not told["given_up"] else None),
        split=told.get("split", {}),
        arrived_s=told["arrived_s"],
        ended_s=told["ended_s"],
        kept_tokens=_kept_tokens(told),
    )


def check_work(line: ProgramLine, told: ProgramTold, *, arm: str) -> None:
    """That every call put out just as many tokens as it was to, and none is missing.

    Of a vote as many calls have to be there as suffice; which of them is the arm's own business.

    Raises:
        BenchFailed: It did not.
    """
    asked = {node["name"]: node["tokens"] for node in line["nodes"] if node["kind"] == "call"}
    made = {call["name"]: call["output_tokens"] for call in told["calls"]}
    where = f"{arm}, {line['name']}"
    for name, tokens in made.items():
        if asked.get(name) != tokens:
            raise BenchFailed(
                f"{where}: {name} put out {tokens} tokens instead of {asked.get(name)}",
                hint="An arm that does other work is no peer: see why it stopped",
            )
    quorum = line["quorum"]
    voters = set(quorum["names"]) if quorum else set()
    missing = [name for name in asked if name not in made and name not in voters]
    if missing or (quorum and len(voters & made.keys()) < quorum["least"]):
        raise BenchFailed(f"{where}: calls are missing: {', '.join(missing) or 'of the vote'}")
    waits = {node["name"] for node in line["nodes"] if node["kind"] != "call"}
    if waits != {wait["name"] for wait in told["waits"]}:
        raise BenchFailed(f"{where}: not all tools were used")


def hit_rate(samples: Iterable[PlayedProgram]) -> float | None:
    """Share of prompt tokens that were found; None where an engine does not tell."""
    prompt = cached = 0
    for sample in samples:
        if sample.prompt_tokens is None or sample.cached_tokens is None:
            return None
        prompt += sample.prompt_tokens
        cached += sample.cached_tokens
    return cached / prompt if prompt else None


def mean_split(samples: Sequence[PlayedProgram]) -> dict[str, float]:
    """Seconds by label, averaged; {} where nobody knows."""
    if not all(sample.split for sample in samples):
        return {}
    labels = samples[0].split
    return {
        label: sum(sample.split[label] for sample in samples) / len(samples) for label in labels
    }


def _kept_tokens(told: ProgramTold) -> float | None:
    token_s = 0.0
    for call in told["calls"]:
        if call["prompt_tokens"] is None or call["cached_tokens"] is None:
            return None
        new_tokens = call["prompt_tokens"] - call["cached_tokens"] + call["output_tokens"]
        token_s += new_tokens * max(0.0, told["ended_s"] - call["ended_s"])
    life_s = told["ended_s"] - told["arrived_s"]
    return token_s / life_s if life_s > 0 else 0.0


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def _pauses_s(line: ProgramLine, told: ProgramTold) -> float:
    """People's pauses, which no arm can shorten; one after the other."""
    pauses = {node["name"] for node in line["nodes"] if node["kind"] == "think"}
    return sum(
        wait["ended_s"] - wait["began_s"] for wait in told["waits"] if wait["name"] in pauses
    )


def _tools_s(line: ProgramLine, told: ProgramTold) -> float:
    """Time in which at least one tool and no call was under way."""
    tools = {node["name"] for node in line["nodes"] if node["kind"] == "tool"}
    moments: list[tuple[float, int, int]] = []
    for wait in told["waits"]:
        if wait["name"] in tools:
            moments += [(wait["began_s"], 0, 1), (wait["ended_s"], 0, -1)]
    for call in told["calls"]:
        moments += [(call["began_s"], 1, 1), (call["ended_s"], 1, -1)]
    under_way, total_s, before_s = [0, 0], 0.0, 0.0
    for at_s, kind, change in sorted(moments):
        if under_way[0] and not under_way[1]:
            total_s += at_s - before_s
        under_way[kind] += change
        before_s = at_s
    return total_s
