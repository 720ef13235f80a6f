"""Figures of samples: latency, cache hits, wasted tokens."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from agentrt.base.record import record
from agentrt.lab.arms.wire import ProgramLine, ProgramSample
from agentrt.lab.errors import BenchFailed


@record
class PlayedProgram:
    """One program, played once by one arm.

    Attributes:
        name: Name of the program.
        shape: Shape of the program.
        tenant: Tenant of the program.
        latency_s: Seconds from its arrival to its result, without people's pauses.
        tools_s: Seconds of these in which tools and no call were under way.
        prompt_tokens: Prompt tokens of all ended calls as the engine counts; None if unknown.
        cached_tokens: Prompt tokens that were found in the cache; None if unknown.
        output_tokens: Output tokens by call, in the order of their names.
        output_hash: Hash of all texts.
        wasted_tokens: Tokens of calls that were given up; None if unknown.
        split: Seconds of the critical path by label; {} if unknown.
        arrived_s: Instant at which it was due, from the beginning of the play.
        ended_s: Instant of its result.
        kept_tokens: Tokens that were computed for it and could be kept, on average from its arrival
            to its end; None if unknown.
        requests: Requests that were sent, with those that were given up.
        given_up: Requests that a vote made needless.
        forced_tokens: Output tokens that a grammar forced; None if unknown.
        drafted_tokens: Output tokens that were guessed and kept; None if unknown.
        drafts: The same by the source of the guess; {} if unknown.
        late_tokens: Prompt tokens of calls that quote others, left to compute when these had
            all ended; None if unknown.
        early_tools: Tools that began before their plan had ended.
        early_calls: Calls that were sent before all that they quote had ended.
        held_calls: Calls that admission control held.
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
    requests: int = 0
    given_up: int = 0
    forced_tokens: int | None = None
    drafted_tokens: int | None = None
    late_tokens: int | None = None
    early_tools: int = 0
    early_calls: int = 0
    held_calls: int = 0
    drafts: dict[str, int] = field(default_factory=dict)

    @property
    def service_s(self) -> float:
        """Latency without tools: the time that it takes of an engine."""
        return self.latency_s - self.tools_s


def played(line: ProgramLine, sample: ProgramSample, *, arm: str) -> PlayedProgram:
    """The figures of one sample.

    Raises:
        BenchFailed: The arm did other work than it had to.
    """
    check_work(line, sample, arm=arm)
    calls = sample["calls"]
    texts = sorted((call["name"], call["output"]) for call in calls)
    return PlayedProgram(
        name=line["name"],
        shape=line["shape"],
        tenant=line["tenant"],
        latency_s=sample["ended_s"] - sample["arrived_s"] - _pauses_s(line, sample),
        tools_s=_tools_s(line, sample),
        prompt_tokens=sum_if_known([call["prompt_tokens"] for call in calls]),
        cached_tokens=sum_if_known([call["cached_tokens"] for call in calls]),
        output_tokens={call["name"]: call["output_tokens"] for call in calls},
        output_hash=hashlib.sha256(repr(texts).encode()).hexdigest()[:16],
        wasted_tokens=sample.get("wasted_tokens", 0 if not sample["given_up"] else None),
        split=sample.get("split", {}),
        arrived_s=sample["arrived_s"],
        ended_s=sample["ended_s"],
        kept_tokens=_kept_tokens(sample),
        requests=len(calls) + len(sample["given_up"]),
        given_up=len(sample["given_up"]),
        forced_tokens=sum_if_known([call.get("forced_tokens") for call in calls]),
        drafted_tokens=sum_if_known([call.get("drafted_tokens") for call in calls]),
        late_tokens=_late_tokens(line, sample),
        early_tools=_early(line, sample, "tool"),
        early_calls=_early(line, sample, "call"),
        held_calls=sum(call.get("held_s", 0.0) > 0 for call in calls),
        drafts=dict(sum((Counter(call.get("drafts", {})) for call in calls), Counter[str]())),
    )


def check_work(line: ProgramLine, sample: ProgramSample, *, arm: str) -> None:
    """Check that no call is missing and each has as many tokens as it should, or its recorded text.

    A vote needs as many calls as suffice; the arm may choose which.

    Raises:
        BenchFailed: A call or a tool is missing, or has another number of tokens, or another text
            than the recorded one.
    """
    wanted = {node["name"]: node["tokens"] for node in line["nodes"] if node["kind"] == "call"}
    made = {call["name"]: call["output_tokens"] for call in sample["calls"]}
    where = f"{arm}, {line['name']}"
    for name, tokens in made.items():
        if wanted.get(name) != tokens:
            raise BenchFailed(
                f"{where}: {name} put out {tokens} tokens instead of {wanted.get(name)}",
                hint="An arm that does other work is no peer: see why it stopped",
            )
    recorded = {
        node["name"]: node["output"]
        for node in line["nodes"]
        if node["kind"] == "call" and "output" in node
    }
    for call in sample["calls"]:
        text = recorded.get(call["name"])
        if text is not None and text.strip() != call["output"].strip():
            raise BenchFailed(
                f"{where}: {call['name']} did not put out its recorded text",
                hint="Its prompt is not the recorded one, or its engine has no record of it",
            )
    quorum = line["quorum"]
    voters = set(quorum["names"]) if quorum else set()
    missing = [name for name in wanted if name not in made and name not in voters]
    if missing or (quorum and len(voters & made.keys()) < quorum["least"]):
        raise BenchFailed(f"{where}: calls are missing: {', '.join(missing) or 'of the vote'}")
    waits = {node["name"] for node in line["nodes"] if node["kind"] != "call"}
    if waits != {wait["name"] for wait in sample["waits"]}:
        raise BenchFailed(f"{where}: not all tools were used")


def hit_rate(samples: Sequence[PlayedProgram]) -> float | None:
    """Share of prompt tokens that were found in the cache; None if an engine does not report it."""
    prompt = sum_if_known([sample.prompt_tokens for sample in samples])
    cached = sum_if_known([sample.cached_tokens for sample in samples])
    return cached / prompt if prompt and cached is not None else None


def mean_split(samples: Sequence[PlayedProgram]) -> dict[str, float]:
    """Mean seconds by label; {} if unknown."""
    if not all(sample.split for sample in samples):
        return {}
    labels = samples[0].split
    return {
        label: sum(sample.split[label] for sample in samples) / len(samples) for label in labels
    }


def sum_if_known(values: Sequence[int | None]) -> int | None:
    """The sum; None if a value is."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _kept_tokens(sample: ProgramSample) -> float | None:
    token_s = 0.0
    for call in sample["calls"]:
        if call["prompt_tokens"] is None or call["cached_tokens"] is None:
            return None
        new_tokens = call["prompt_tokens"] - call["cached_tokens"] + call["output_tokens"]
        token_s += new_tokens * max(0.0, sample["ended_s"] - call["ended_s"])
    life_s = sample["ended_s"] - sample["arrived_s"]
    return token_s / life_s if life_s > 0 else 0.0


def _early(line: ProgramLine, sample: ProgramSample, kind: str) -> int:
    """Nodes of a kind that began before one of the nodes that they need had ended."""
    began_s = {one["name"]: one["began_s"] for one in (*sample["calls"], *sample["waits"])}
    ended_s = {one["name"]: one["ended_s"] for one in (*sample["calls"], *sample["waits"])}
    return sum(
        any(ended_s.get(name, 0.0) > began_s[node["name"]] for name in node["needs"])
        for node in line["nodes"]
        if node["kind"] == kind and node["name"] in began_s
    )


def _late_tokens(line: ProgramLine, sample: ProgramSample) -> int | None:
    """Prompt tokens that were left when the last of what they quote had ended."""
    quoting = {node["name"] for node in line["nodes"] if node["kind"] == "call" and node["needs"]}
    calls = [call for call in sample["calls"] if call["name"] in quoting]
    return sum_if_known([call.get("late_tokens") for call in calls])


def _pauses_s(line: ProgramLine, sample: ProgramSample) -> float:
    """People's pauses, which follow each other and no arm can shorten."""
    pauses = {node["name"] for node in line["nodes"] if node["kind"] == "think"}
    return sum(
        wait["ended_s"] - wait["began_s"] for wait in sample["waits"] if wait["name"] in pauses
    )


def _tools_s(line: ProgramLine, sample: ProgramSample) -> float:
    """Time in which at least one tool and no call was under way."""
    tools = {node["name"] for node in line["nodes"] if node["kind"] == "tool"}
    moments: list[tuple[float, int, int]] = []
    for wait in sample["waits"]:
        if wait["name"] in tools:
            moments += [(wait["began_s"], 0, 1), (wait["ended_s"], 0, -1)]
    for call in sample["calls"]:
        moments += [(call["began_s"], 1, 1), (call["ended_s"], 1, -1)]
    under_way, total_s, before_s = [0, 0], 0.0, 0.0
    for at_s, kind, change in sorted(moments):
        if under_way[0] and not under_way[1]:
            total_s += at_s - before_s
        under_way[kind] += change
        before_s = at_s
    return total_s
