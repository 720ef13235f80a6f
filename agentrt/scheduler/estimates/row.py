"""One learned quantity as plain data, to keep, to show and to merge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentrt.base.record import record

DECAY = 0.99
"""By which an observation of a quantity weighs earlier ones."""

CALLS = "calls"
"""What a row is called that tells of the tool which comes next; all others are quantities."""

CALLS_DECAY = 0.9
"""The same of calls: programs change at once, machines slowly."""

Key = tuple[str, str, int | None, str]


@record
class EstimateRow:
    """One learned quantity of one place.

    Attributes:
        template: The program that was started; "" with `site` "" is the place above all.
        site: Call site, or "" for the template as a whole.
        depth: At which depth of the run, or None for any.
        quantity: Its name, or `next` for what followed: a sum `next:SITE` for each site.
        count: Observations ever.
        sums: Linear in the observations; each observation weighs earlier ones by one factor.
    """

    template: str
    site: str
    depth: int | None
    quantity: str
    count: int
    sums: dict[str, float]

    @property
    def key(self) -> Key:
        """What it is of."""
        return (self.template, self.site, self.depth, self.quantity)

    @property
    def decay(self) -> float:
        """That factor."""
        return CALLS_DECAY if self.quantity == CALLS else DECAY


def merged(stored: EstimateRow | None, base: EstimateRow | None, mine: EstimateRow) -> EstimateRow:
    """What two processes learned apart, as if this one had learned after the other.

    Args:
        stored: What is kept now; None where nothing is, for it was forgotten meanwhile.
        base: What this one had when it last read or wrote the file; None when nothing was kept.
        mine: What came of that here.
    """
    if stored is None and base is None:
        return mine
    news = mine.count - (base.count if base is not None else 0)
    faded = mine.decay**news
    before = base.sums if base is not None else {}
    there = stored.sums if stored is not None else {}
    sums = {
        name: mine.sums.get(name, 0.0) + (there.get(name, 0.0) - before.get(name, 0.0)) * faded
        for name in {**there, **mine.sums, **before}
    }
    if mine.quantity in (CALLS, "next"):  # of which the lightest names are left out at times
        sums = {name: value for name, value in sums.items() if value > 0.0}
    count = news + (stored.count if stored is not None else 0)
    return replace(mine, count=count, sums=sums)


def spelt(row: EstimateRow, spell: Callable[[str], str]) -> EstimateRow:
    """The same row, its places spelt in another way."""
    sums: Mapping[str, float] = row.sums
    if row.quantity == "next":
        sums = {
            f"next:{spell(name.removeprefix('next:'))}" if name.startswith("next:") else name: value
            for name, value in sums.items()
        }
    return replace(row, template=spell(row.template), site=spell(row.site), sums=dict(sums))


def numbers_of(found: object) -> dict[str, float]:
    """Sums as they were read.

    Raises:
        ValueError: They are no finite numbers by name.
    """
    if not isinstance(found, dict):
        raise ValueError("these are no sums")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name!r} is no number")
        if not math.isfinite(value):
            raise ValueError(f"{name!r} is no finite number")
    return {str(name): float(value) for name, value in found.items()}
