"""Estimate rows: one learned quantity as plain data, to store, to display and to merge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentrt.base.record import record

DECAY = 0.99
"""Factor by which an observation of a quantity decays earlier ones."""

CALLS = "calls"
"""Quantity of rows that predict the next tool call."""

PROMPTS = "prompts"
"""Quantity of rows that predict the next prompt."""

CALLS_DECAY = 0.9
"""The same factor for calls and prompts: programs change at once, machines slowly."""

NEGLIGIBLE = 1e-9
"""Weight of observations that have decayed."""

RowKey = tuple[str, str, int | None, str]


@record
class EstimateRow:
    """One learned quantity of one site.

    Attributes:
        template: Program that was started; "" with `site` "" is the root of all sites.
        site: Call site, or "" for the template as a whole.
        depth: Depth in the run, or None for any.
        quantity: Name, or `next` for the following sites: a sum `next:SITE` for each.
        count: Observations ever.
        sums: Sums that are linear in the observations; each decays earlier ones by one factor.
    """

    template: str
    site: str
    depth: int | None
    quantity: str
    count: int
    sums: dict[str, float]

    @property
    def key(self) -> RowKey:
        """Identity of the row."""
        return (self.template, self.site, self.depth, self.quantity)

    @property
    def decay(self) -> float:
        """Factor by which an observation decays earlier ones."""
        return CALLS_DECAY if self.quantity in (CALLS, PROMPTS) else DECAY


def merge_rows(
    stored: EstimateRow | None, base: EstimateRow | None, own: EstimateRow
) -> EstimateRow:
    """Merge what two processes learned separately, as if this one had learned after the other.

    Args:
        stored: Stored row now; None if there is none, since it was deleted meanwhile.
        base: Row that this process last read or wrote; None if there was none.
        own: Row of this process now.
    """
    if stored is None and base is None:
        return own
    new_count = own.count - (base.count if base is not None else 0)
    faded = own.decay**new_count
    base_sums = base.sums if base is not None else {}
    stored_sums = stored.sums if stored is not None else {}
    sums = {
        name: own.sums.get(name, 0.0)
        + (stored_sums.get(name, 0.0) - base_sums.get(name, 0.0)) * faded
        for name in {**stored_sums, **own.sums, **base_sums}
    }
    if own.quantity in (CALLS, PROMPTS, "next"):  # their lightest names are dropped at times
        sums = {name: value for name, value in sums.items() if value > 0.0}
    else:
        _drop_decayed(sums)
    count = new_count + (stored.count if stored is not None else 0)
    return replace(own, count=count, sums=sums)


def _drop_decayed(sums: dict[str, float]) -> None:
    """Drop buckets that have decayed.

    A process forgets them when it reads them, so each that merges takes their weight away once.
    """
    for name in [one for one, value in sums.items() if abs(value) < NEGLIGIBLE]:
        if name[0] == "w" and name[1:].isdigit():
            del sums[name]
            sums.pop(f"l{name[1:]}", None)


def respell(row: EstimateRow, spell: Callable[[str], str]) -> EstimateRow:
    """The same row with its sites spelled in another way."""
    sums: Mapping[str, float] = row.sums
    if row.quantity == "next":
        sums = {
            f"next:{spell(name.removeprefix('next:'))}" if name.startswith("next:") else name: value
            for name, value in sums.items()
        }
    return replace(row, template=spell(row.template), site=spell(row.site), sums=dict(sums))


def parse_sums(found: object) -> dict[str, float]:
    """Sums as they were read.

    Raises:
        ValueError: The input is no mapping from names to finite numbers.
    """
    if not isinstance(found, dict):
        raise ValueError("these are no sums")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name!r} is no number")
        if not math.isfinite(value):
            raise ValueError(f"{name!r} is no finite number")
    return {str(name): float(value) for name, value in found.items()}
