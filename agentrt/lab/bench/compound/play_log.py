"""All plays of a bench: those of earlier parts, read from its file, and those of this part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from agentrt.lab.bench.compound.arm_samples import ArmSamples, PlayedRound, play_from
from agentrt.lab.bench.compound.plan import Round, RoundKey
from agentrt.lab.bench.flags import COMPOUND_FILE
from agentrt.lab.equal_facts import check_equal
from agentrt.lab.workloads.step_sample import StepSample

Json = dict[str, Any]


@dataclass(slots=True)
class PlayLog:
    """Plays, arms and parts.

    Attributes:
        identity: Facts that are the same in all parts: machine, code, model, scale and memory.
        samples: Samples by name of the arm.
        arms: By name of the arm, its configuration and what it said about itself.
        choices: Times of a server's plans in a probe, by kind.
        reaches: Efficiency of a server, by kind.
        bounds: Bounds of the programs of our arm, if it was measured.
        parts: Earlier parts: command, date, arms, and the time that each step took.
        on_play: Called after every play that counts.
    """

    identity: Mapping[str, Any]
    samples: dict[str, ArmSamples] = field(default_factory=dict)
    arms: dict[str, Json] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)
    reaches: dict[str, Any] = field(default_factory=dict)
    bounds: Json = field(default_factory=dict)
    parts: list[Json] = field(default_factory=list)
    on_play: Callable[[], None] = lambda: None

    def of(self, arm: str) -> ArmSamples:
        """Samples of an arm; made if there are none."""
        return self.samples.setdefault(arm, ArmSamples())

    def add(self, arm: str, play: PlayedRound, steps: Sequence[StepSample]) -> None:
        """Add a round that counts."""
        self.of(arm).add(play, steps)
        self.on_play()

    def left(self, arm: str, rounds: Sequence[Round]) -> list[Round]:
        """Rounds that an arm has still to play, with those that warm it up for them."""
        played = {play.key for play in self.samples.get(arm, ArmSamples()).plays}
        missing = {one.label for one in rounds if one.counts and one.key not in played}
        of_shapes = {one.label for one in rounds if one.counts}

        def is_left(one: Round) -> bool:
            if one.counts:
                return one.key not in played
            return one.label in missing or bool(missing and one.label not in of_shapes)

        return [one for one in rounds if is_left(one)]

    def round_keys(self) -> list[RoundKey]:
        """All rounds that any arm has played, each once."""
        plays = (play for samples in self.samples.values() for play in samples.plays)
        return list(dict.fromkeys(play.key for play in plays))

    def expected_s(self, arm: str, label: str) -> float | None:
        """Mean time of the plays of a label: of this arm, else of all arms; None without any."""
        own = [play.took_s for play in self.samples.get(arm, ArmSamples()).of(label)]
        everyone = (samples.of(label) for samples in self.samples.values())
        known = own or [play.took_s for plays in everyone for play in plays]
        return fmean(known) if known else None

    def check_arm(self, name: str, config: Json) -> None:
        """Check that an arm is configured as in earlier parts.

        Raises:
            UsageError: The configuration differs.
        """
        if name in self.arms:
            check_equal(self.arms[name]["config"], config, f"arm {name}")


def read_log(path: Path, identity: Mapping[str, Any]) -> PlayLog:
    """The log that a file holds.

    Args:
        path: A file that `agentrt bench compound` wrote.
        identity: Facts that have to be the same as in its earlier parts.

    Raises:
        UsageError: The file cannot be read, or was measured with something else.
    """

    def log_of(found: Mapping[str, Any]) -> PlayLog:
        check_equal(found["identity"], identity, path.name)
        arms = found["arms"]
        return PlayLog(
            identity=found["identity"],
            samples={
                arm["name"]: ArmSamples([play_from(play) for play in arm["plays"]]) for arm in arms
            },
            arms={arm["name"]: {key: arm[key] for key in ("config", "about")} for arm in arms},
            choices=found["choices"],
            reaches=found["reaches"],
            bounds=found["bounds"],
            parts=found["parts"],
        )

    return COMPOUND_FILE.read(path, log_of)


def left_in_words(log: PlayLog, left: Iterable[tuple[str, Round]]) -> str:
    """How many plays are left and how long they take, as far as their like were played."""
    times = [log.expected_s(arm, one.label) for arm, one in left]
    known = [one for one in times if one is not None]
    words = f"{len(times)} plays left, about {sum(known) / 60:.1f} min"
    unknown = len(times) - len(known)
    return f"{words} and {unknown} plays of unknown length" if unknown else words
