"""A run: every arm is opened, and in each round the arms take turns with the same programs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS, ArmProcess
from agentrt.lab.arms.program_arm import play
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.figures import PlayedProgram, played
from agentrt.lab.bench.compound.open_arms import ArmsConfig, open_arms
from agentrt.lab.bench.compound.plan import Round, widest
from agentrt.lab.bench.compound.play_log import PlayLog, left_in_words
from agentrt.lab.bench.compound.probe import probe_of
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log
from agentrt.lab.quiet_machine import QuietMachine, read_cpu
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.lab.workloads.trace import ProgramTrace

MOST_SLOTS = 32
_NOTED_CORES = 0.2  # load of others during a play that is worth a word


@record
class CompoundRun:
    """A run of programs, one at a time or as they arrive.

    Attributes:
        config: The arms.
        rounds: Rounds of all parts, warming ones first.
        plays: Samples of all arms, and facts about these.
        times_s: Seconds of each part of the run, by name.
        load: Result of an open load.
    """

    config: ArmsConfig
    rounds: Sequence[Round]
    plays: PlayLog
    times_s: Mapping[str, float] = field(default_factory=dict)
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


def run_rounds(
    rounds: Sequence[Round],
    config: ArmsConfig,
    stack: ExitStack,
    plays: PlayLog,
    quiet: QuietMachine,
    probe: Sequence[Round] = (),
) -> CompoundRun:
    """Open every arm that has rounds left, and let each play them.

    Args:
        rounds: Rounds in their order.
        config: The arms, with room for the programs.
        stack: Closes the arms.
        plays: Log of the plays so far; those of this run are added.
        quiet: Check before each play.
        probe: Rounds with the programs by which servers are chosen; () takes them from `rounds`.

    Raises:
        BenchFailed: Arms cannot be compared.
        UsageError: An arm is not configured as in earlier parts.
    """
    times_s: dict[str, float] = {}
    left = {name: plays.left(name, rounds) for name in config.names}
    config = config.only([name for name in config.names if left[name]])
    if config.names:
        began_s = time.monotonic()
        arms = open_arms(config, probe_of(probe or rounds), stack, plays)
        times_s["opening arms"] = time.monotonic() - began_s
        times_s |= take_turns(arms, {name: left[name] for name in arms}, rounds, plays, quiet)
    return CompoundRun(config, rounds, plays, times_s)


def take_turns(
    arms: Mapping[str, ArmProcess],
    left: Mapping[str, Sequence[Round]],
    rounds: Sequence[Round],
    plays: PlayLog,
    quiet: QuietMachine,
) -> dict[str, float]:
    """Let every arm play its rounds; the first arm changes from round to round.

    Args:
        arms: Opened arms by name.
        left: Rounds that each has to play.
        rounds: All rounds, in the order in which they are played.
        plays: Log to which plays are added.
        quiet: Check before each play.

    Returns:
        Seconds of each arm's plays, and of the checks before them.

    Raises:
        BenchFailed: An arm failed, or did other work than it had to, or the machine is busy.
    """
    names = list(arms)
    took_s = dict.fromkeys((*names, "checks of the machine"), 0.0)
    to_do = [(name, one) for one in rounds for name in names if one in left[name]]
    log(f"{len(arms)} arms: {left_in_words(plays, to_do)}")
    for number, one in enumerate(rounds):
        turn = number % len(names)
        done: dict[str, PlayedRound] = {}
        for name in names[turn:] + names[:turn]:
            if one not in left[name]:
                continue
            began_s = time.monotonic()
            others = quiet.check()
            took_s["checks of the machine"] += time.monotonic() - began_s
            found, steps = play_round(arms[name], one, name)
            done[name] = replace(found, others_before=others)
            took_s[name] += found.took_s
            check_equal(_others(plays, one) | {name: done[name].programs})
            if one.counts:
                plays.add(name, done[name], steps)
            to_do.remove((name, one))
        if done:
            log(f"{number + 1}/{len(rounds)} {one.label}: {_means(done)}; "
                f"{left_in_words(plays, to_do)}")  # fmt: skip
    return took_s


def play_round(arm: ArmProcess, one: Round, salt: str) -> tuple[PlayedRound, Sequence[StepSample]]:
    """Let one arm play one round.

    Args:
        arm: The arm.
        one: The round.
        salt: Salt of the text: every arm has text of its own.

    Raises:
        BenchFailed: The arm failed, or did other work than it had to.
    """
    lines = one.lines(salt)
    counts, before = arm.server_counts(), read_cpu(arm.groups)
    began_s = time.monotonic()
    found = play(arm, lines)
    took_s = time.monotonic() - began_s
    after, counted = read_cpu(arm.groups), arm.server_counts()
    steps: int | None = len(found.steps) or None
    computed: int | None = sum(step.prefill_tokens for step in found.steps) if steps else None
    if "steps" in counted:
        steps = counted["steps"] - counts["steps"]
    if "prompt_tokens" in counted:
        computed = counted["prompt_tokens"] - counts["prompt_tokens"]
    pairs = zip(lines, found.samples, strict=True)
    return PlayedRound(
        one.label,
        one.draw,
        one.play,
        programs=tuple(played(line, sample, arm=salt) for line, sample in pairs),
        took_s=took_s,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        others_during=after.others_cores(before) if before and after else None,
        steps=steps,
        computed_tokens=computed,
        busy_s=math.fsum(step.seconds for step in found.steps) if found.steps else None,
    ), found.steps


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


def _others(plays: PlayLog, one: Round) -> dict[str, Sequence[PlayedProgram]]:
    """Samples of all arms that have played a round, in this part or an earlier one."""
    return {
        name: play.programs
        for name, samples in plays.samples.items()
        for play in samples.plays
        if play.key == one.key
    }


def _means(done: Mapping[str, PlayedRound]) -> str:
    shown = []
    for name, one in done.items():
        mean_s = math.fsum(sample.latency_s for sample in one.programs) / len(one.programs)
        others = one.others_during or 0.0
        busy = f" beside {others:.1f} busy cores" if others > _NOTED_CORES else ""
        shown.append(f"{name} {mean_s:.3f} s{busy}")
    return "  ".join(shown)
