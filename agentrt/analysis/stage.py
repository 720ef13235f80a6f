"""A stretch of a node's time, and the labels under which time is split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from agentrt.base.record import record

Label = Literal[
    "admission",
    "cache",
    "queue",
    "kv_reload",
    "prefill",
    "decode",
    "constraint",
    "tool",
    "orchestration",
    "network",
    "unattributed",
]
LABELS: tuple[Label, ...] = get_args(Label)
Shares = tuple[tuple[Label, float], ...]


@record
class Stage:
    """A stretch of a node's time.

    Attributes:
        label: Dominant kind of time.
        started_at_s: First instant.
        ended_at_s: First instant after it.
        shares: Label -> seconds, where several things alternate too finely to tell apart (masks
            between decode steps); they sum to the stage's length. Empty: all is `label`.
    """

    label: Label
    started_at_s: float
    ended_at_s: float
    shares: Shares = ()

    @property
    def length_s(self) -> float:
        """How long it took."""
        return self.ended_at_s - self.started_at_s

    def within(self, from_s: float, to_s: float) -> Iterable[tuple[Label, float]]:
        """Label and seconds of what lies between two instants."""
        length_s = min(self.ended_at_s, to_s) - max(self.started_at_s, from_s)
        if length_s <= 0.0:
            return ()
        if not self.shares:
            return ((self.label, length_s),)
        scale = length_s / self.length_s
        return tuple((label, seconds * scale) for label, seconds in self.shares)

    def clipped(self, from_s: float, to_s: float) -> Stage | None:
        """The part of it between two instants; None if there is none."""
        first_s, last_s = max(self.started_at_s, from_s), min(self.ended_at_s, to_s)
        if last_s <= first_s:
            return None
        return Stage(
            self.label, first_s, last_s, tuple(self.within(from_s, to_s)) if self.shares else ()
        )
