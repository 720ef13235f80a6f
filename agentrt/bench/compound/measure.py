"""Arms take turns: round by round each plays the same programs, and has to have done so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.bench.compound.arm import OpenPlayer
from agentrt.bench.compound.figures import Played, played
from agentrt.bench.compound.plan import Round
from agentrt.bench.compound.wire import StepTold


@dataclass(slots=True)
class ArmSamples:
    """What one arm did.

    Attributes:
        rounds: By the label of rounds, in their order, the programs of each.
        steps: Of the engine in rounds that count, where the client sees them.
    """

    rounds: dict[str, list[list[Played]]] = field(default_factory=dict)
    steps: list[StepTold] = field(default_factory=list)

    def all(self, label: str) -> list[Played]:
        """All samples of a label."""
        return [sample for one in self.rounds.get(label, []) for sample in one]

    def add(self, label: str, samples: list[Played]) -> None:
        """A round that counts."""
        self.rounds.setdefault(label, []).append(samples)


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
        for name in names[turn:] + names[:turn]:
            player = players[name]
            lines = one.lines(salt or name)
            told = player.play(lines)
            samples = [
                played(line, sample, arm=name) for line, sample in zip(lines, told, strict=True)
            ]
            took[name] = math.fsum(sample.latency_s for sample in samples) / len(samples)
            if one.counts:
                found[name].add(one.label, samples)
                found[name].steps += player.steps
        shown = "  ".join(f"{name} {took[name]:.3f}" for name in names)
        tell(f"{number + 1}/{len(rounds)} {one.label}: {shown} s")
    return found
