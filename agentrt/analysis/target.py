"""A ratio that is to be reached, with what was found."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.analysis.html_page import table
from agentrt.analysis.plot import Interval
from agentrt.base.record import record


@record
class Target:
    """Something that is to be reached.

    Attributes:
        what: In words.
        found: Its value, with an interval.
        most: That it may have.
    """

    what: str
    found: Interval
    most: float

    @property
    def is_met(self) -> bool:
        """Whether the value is within."""
        return self.found.value <= self.most

    def __str__(self) -> str:
        found, verdict = self.found, "met" if self.is_met else "missed"
        return (
            f"{self.what}: {found.value:.3f} ({found.low:.3f} to {found.high:.3f}), "
            f"at most {self.most:g}: {verdict}"
        )


def target_table(targets: Sequence[Target]) -> str:
    """Targets as HTML."""
    rows = [
        (
            one.what,
            f"{one.found.value:.3f}",
            f"{one.found.low:.3f} to {one.found.high:.3f}",
            f"{one.most:g}",
            "met" if one.is_met else "missed",
        )
        for one in targets
    ]
    return table(("target", "found", "95 %", "at most", ""), rows)
