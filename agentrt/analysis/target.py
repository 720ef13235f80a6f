"""A ratio that is to be reached, beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.analysis.html_page import table_of
from agentrt.analysis.statistics import Interval
from agentrt.base.record import record


@record
class Target:
    """An upper limit of a measured ratio.

    Attributes:
        what: The ratio in words.
        found: Measured value.
        most: Limit.
    """

    what: str
    found: Interval
    most: float

    @property
    def is_met(self) -> bool:
        """True if the value is within the limit."""
        return self.found.value <= self.most

    @property
    def verdict(self) -> str:
        """`met` or `missed`."""
        return "met" if self.is_met else "missed"

    def __str__(self) -> str:
        return f"{self.what}: {self.found:.3f}, at most {self.most:g}: {self.verdict}"


def target_table(targets: Sequence[Target]) -> str:
    """Targets as HTML."""
    return table_of(
        targets,
        {
            "target": lambda one: one.what,
            "found": lambda one: f"{one.found.value:.3f}",
            "95 %": lambda one: f"{one.found.low:.3f} to {one.found.high:.3f}",
            "at most": lambda one: f"{one.most:g}",
            "": lambda one: one.verdict,
        },
    )
