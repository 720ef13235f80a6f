"""Arms take turns: round by round each plays the same programs, and has to have done so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.lab.arms.program_arm import OpenPlayer
from agentrt.lab.arms.wire import StepTold
from agentrt.lab.bench.compound.figures import PlayedProgram, played
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.errors import BenchFailed


@dataclass(slots=True)
class ArmSamples:
    """What one arm did.

    Attributes:
        rounds: By the label of rounds, in their order, the programs of each.
        steps: By the label of rounds that count, those of the engine, where the client sees them.
    """

    rounds: dict[str, list[list[PlayedProgram]]] = field(default_factory=dict)
    steps: dict[str, list[StepTold]] = field(default_factory=dict)

    def all(self, label: str) -> list[PlayedProgram]:
        """All samples of a label."""
        return [sample for one in self.rounds.get(label, []) for sample in one]

    def add(self, label: str, samples: list[PlayedProgram], steps: Sequence[StepTold] = ()) -> None:
        """A round that counts."""
        self.rounds.setdefault(label, []).append(samples)
        self.steps.setdefault(label, []).extend(steps)


def take_turns(
    players: Mapping[str, OpenPlayer],
    rounds: Sequence[Round],
    tell: Callable[[str], None],
    *,
    salt: str = "",
) -> dict[str, ArmSamples]:
    """Let every arm play every round; who begins changes from round to round.

    Args:
        players: By name of the arm.
        rounds: In their order.
        tell: Called with what goes on.
        salt: Of the text; "" gives every arm text of its own, of the same lengths.

    Raises:
        BenchFailed: An arm failed, or did other work than it was asked to.
    """
    found = {name: ArmSamples() for name in players}
    names = list(players)
    for number, one in enumerate(rounds):
        turn = number % len(names)
        took: dict[str, float] = {}
        did: dict[str, list[PlayedProgram]] = {}
        for name in names[turn:] + names[:turn]:
            player = players[name]
            did[name] = samples = play_round(name, player, one, salt or name)
            took[name] = math.fsum(sample.latency_s for sample in samples) / len(samples)
            if one.counts:
                found[name].add(one.label, samples, player.steps)
        check_equal(did)
        shown = "  ".join(f"{name} {took[name]:.3f}" for name in names)
        tell(f"{number + 1}/{len(rounds)} {one.label}: {shown} s")
    return found


def play_round(name: str, player: OpenPlayer, one: Round, salt: str) -> list[PlayedProgram]:
    """One arm plays one round.

    Args:
        name: Of the arm.
        player: That plays.
        one: The round.
        salt: Of its text.

    Raises:
        BenchFailed: It failed, or did other work than it was asked to.
    """
    lines = one.lines(salt)
    told = player.play(lines)
    return [played(line, sample, arm=name) for line, sample in zip(lines, told, strict=True)]


def check_equal(did: Mapping[str, Sequence[PlayedProgram]]) -> None:
    """That arms put out equally many tokens in every call that more than one of them made.

    Which calls of a vote are made is an arm's own business; all others `played` has seen to.

    Raises:
        BenchFailed: They did not.
    """
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for name, samples in did.items():
        for sample in samples:
            for call, tokens in sample.output_tokens.items():
                who, as_many = first.setdefault((sample.name, call), (name, tokens))
                if tokens != as_many:
                    raise BenchFailed(
                        f"{sample.name}: {call} has {tokens} tokens by {name}, {as_many} by {who}",
                        hint="Arms that do other work cannot be compared",
                    )
