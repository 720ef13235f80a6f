"""The samples of an arm: its plays of rounds, in the order in which they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.record import record
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.plan import RoundKey
from agentrt.lab.workloads.step_sample import StepSample


@record
class PlayedRound:
    """One round, played once by one arm.

    Attributes:
        label: Label of the round.
        draw: Number of the draw that gave its programs.
        play: Number of the play of these programs.
        programs: A sample of each program.
        took_s: Seconds of the play.
        at: Date and time of its end.
        others_before: Cores that others used right before; None if unknown.
        others_during: Cores that others used meanwhile; None if unknown.
        steps: Steps of the engine; None if unknown.
        computed_tokens: Prompt tokens that the engine computed; None if unknown.
        busy_s: Seconds of its steps; None if unknown.
    """

    label: str
    draw: int
    play: int
    programs: tuple[PlayedProgram, ...]
    took_s: float = 0.0
    at: str = ""
    others_before: float | None = None
    others_during: float | None = None
    steps: int | None = None
    computed_tokens: int | None = None
    busy_s: float | None = None

    @property
    def key(self) -> RoundKey:
        """Label, draw and play."""
        return (self.label, self.draw, self.play)


@dataclass(slots=True)
class ArmSamples:
    """The samples of one arm.

    Attributes:
        plays: Rounds that count, in the order in which they were played.
        steps: By label, steps of the engine in this part of the bench if the client sees them.
    """

    plays: list[PlayedRound] = field(default_factory=list)
    steps: dict[str, list[StepSample]] = field(default_factory=dict)

    def of(self, label: str) -> list[PlayedRound]:
        """Plays of a label."""
        return [play for play in self.plays if play.label == label]

    def rounds(self, label: str) -> list[Sequence[PlayedProgram]]:
        """Samples of a label, by play."""
        return [play.programs for play in self.of(label)]

    def all(self, label: str) -> list[PlayedProgram]:
        """All samples of a label."""
        return [sample for one in self.rounds(label) for sample in one]

    def has(self, key: RoundKey) -> bool:
        """True if a round was played."""
        return any(play.key == key for play in self.plays)

    def add(self, play: PlayedRound, steps: Sequence[StepSample]) -> None:
        """Add a round that counts."""
        self.plays.append(play)
        self.steps.setdefault(play.label, []).extend(steps)


def play_from(found: dict[str, Any]) -> PlayedRound:
    """A play as the file of a bench has it."""
    programs = tuple(PlayedProgram(**sample) for sample in found["programs"])
    return PlayedRound(**{**found, "programs": programs})
