"""A run: every arm is opened, and in each round the arms take turns with the same programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS, ArmProcess
from agentrt.lab.arms.program_arm import play
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.figures import PlayedProgram, played
from agentrt.lab.bench.compound.open_arms import ArmsConfig, OpenArms
from agentrt.lab.bench.compound.plan import Round, widest
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.lab.workloads.trace import ProgramTrace

MOST_SLOTS = 32
_PROBED = 3


@dataclass(slots=True)
class ArmSamples:
    """The samples of one arm.

    Attributes:
        rounds: By label of rounds, in their order, the programs of each.
        steps: By label of rounds that count, steps of the engine if the client sees them.
    """

    rounds: dict[str, list[list[PlayedProgram]]] = field(default_factory=dict)
    steps: dict[str, list[StepSample]] = field(default_factory=dict)

    def all(self, label: str) -> list[PlayedProgram]:
        """All samples of a label."""
        return [sample for one in self.rounds.get(label, []) for sample in one]

    def add(self, label: str, samples: list[PlayedProgram], steps: Sequence[StepSample]) -> None:
        """Add a round that counts."""
        self.rounds.setdefault(label, []).append(samples)
        self.steps.setdefault(label, []).extend(steps)


@record
class CompoundRun:
    """A run of programs, one at a time or as they arrive.

    Attributes:
        config: The arms.
        rounds: Rounds that all arms played, warming ones first.
        opened: The opened arms.
        samples: Samples by name of the arm.
        load: Result of an open load.
    """

    config: ArmsConfig
    rounds: Sequence[Round]
    opened: OpenArms
    samples: Mapping[str, ArmSamples]
    load: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """Labels of the rounds that count."""
        return list(dict.fromkeys(one.label for one in self.rounds if one.counts))


def is_ours(name: str) -> bool:
    """True if an arm is our runtime, by whatever policy."""
    return name.split(":")[0] == OURS


def with_room(
    config: ArmsConfig, programs: Sequence[ProgramTrace], *, kv_tokens: int, longest_tokens: int
) -> ArmsConfig:
    """The same arms, with memory and slots for these programs.

    Args:
        config: The arms.
        programs: Programs that they will play.
        kv_tokens: KV memory.
        longest_tokens: Longest request.
    """
    slots = min(MOST_SLOTS, max(widest(program) for program in programs))
    served = replace(config.served, kv_tokens=kv_tokens, slots=slots, longest_tokens=longest_tokens)
    return replace(config, served=served)


def run_rounds(rounds: Sequence[Round], config: ArmsConfig, stack: ExitStack) -> CompoundRun:
    """Open every arm and let each play every round.

    Args:
        rounds: Rounds in their order.
        config: The arms, with room for the programs.
        stack: Closes the arms.

    Raises:
        BenchFailed: Arms cannot be compared.
    """
    opened = OpenArms(config, probe_of(rounds), stack)
    return CompoundRun(config, rounds, opened, take_turns(opened.arms, rounds))


def probe_of(rounds: Sequence[Round]) -> list[ProgramLine]:
    """The first program of each shape, the smallest ones: servers are chosen by them."""
    seen: dict[str, ProgramLine] = {}
    for one in rounds:
        for line in one.lines("probe"):
            seen.setdefault(line["shape"], {**line, "at_s": 0.0})
    return sorted(seen.values(), key=lambda line: len(line["nodes"]))[:_PROBED]


def take_turns(arms: Mapping[str, ArmProcess], rounds: Sequence[Round]) -> dict[str, ArmSamples]:
    """Let every arm play every round; the first arm changes from round to round.

    Raises:
        BenchFailed: An arm failed, or did other work than it had to.
    """
    found = {name: ArmSamples() for name in arms}
    names = list(arms)
    for number, one in enumerate(rounds):
        turn = number % len(names)
        did: dict[str, list[PlayedProgram]] = {}
        for name in names[turn:] + names[:turn]:
            did[name], steps = play_round(arms[name], one, name)
            if one.counts:
                found[name].add(one.label, did[name], steps)
        check_equal(did)
        means = {name: math.fsum(s.latency_s for s in did[name]) / len(did[name]) for name in names}
        shown = "  ".join(f"{name} {mean_s:.3f}" for name, mean_s in means.items())
        log(f"{number + 1}/{len(rounds)} {one.label}: {shown} s")
    return found


def play_round(
    arm: ArmProcess, one: Round, salt: str
) -> tuple[list[PlayedProgram], Sequence[StepSample]]:
    """Let one arm play one round.

    Args:
        arm: The arm.
        one: The round.
        salt: Salt of the text: every arm has text of its own.

    Raises:
        BenchFailed: The arm failed, or did other work than it had to.
    """
    lines = one.lines(salt)
    found = play(arm, lines)
    pairs = zip(lines, found.samples, strict=True)
    return [played(line, sample, arm=salt) for line, sample in pairs], found.steps


def check_equal(did: Mapping[str, Sequence[PlayedProgram]]) -> None:
    """Check that arms put out equally many tokens in every call that several of them made.

    An arm may choose which calls of a vote it makes; `played` has checked all others.

    Raises:
        BenchFailed: They did not.
    """
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for name, samples in did.items():
        for sample in samples:
            for call, tokens in sample.output_tokens.items():
                other, expected = first.setdefault((sample.name, call), (name, tokens))
                if tokens != expected:
                    counts = f"{tokens} tokens by {name}, {expected} by {other}"
                    raise BenchFailed(
                        f"{sample.name}: {call} has {counts}",
                        hint="Arms that do other work cannot be compared",
                    )
