"""What past runs tell of the next one: learned quantities by the place where they arise.

One table. A place is a call site of a program, at some depth of its run; above it stands the site
at any depth, above that the whole template (the program that was started), above that everything.
A place with too few samples answers with what the place above it knows.

Pure and deterministic: what is observed in the same order gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from agentrt.scheduler.estimates.histogram import NOTHING, Learned
from agentrt.scheduler.estimates.row import DECAY, EstimateRow

Quantity = Literal[
    "output_tokens",
    "tool_s",
    "busy_s",
    "rest_s",
    "path_s",
    "depth",
    "context_tokens",
    "longest_tokens",
    "own_tokens",
    "refused",
]
"""What is learned:

    output_tokens   length of a generation's output
    tool_s          duration of a tool, all its attempts
    busy_s          of a generation: time in steps of its engine, as if it never waited; of a
                    program or a question: its duration
    rest_s          service (share of engines' steps) that the run still needed when this place was
                    reached, all branches
    path_s          time that the run still needed then, along its longest path, had nothing waited
    depth           nodes on that path
    context_tokens  of a whole run: most tokens whose KV it needed at once
    longest_tokens  of a whole run: the longest context of one of its generations
    own_tokens      of a generation: KV that it made itself, its output and what of its prompt no
                    cache knew
    refused         runs that were refused because they could not end in time
"""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
FEW = 3
MOST_DEPTH = 40
EXACT_DEPTH = 16
MOST_PLACES = 4096
MOST_NEXTS = 32
_ALL_OF_FIRST = 8
_EVERY = 8


class SiteEstimates:
    """Where something is learned.

    Attributes:
        template: The program that was started.
        site: Call site in it, or "".
        depth: At which depth of the run, or None for any.
        learned: By quantity.
        nexts: Call sites that followed in the same program body -> decayed weight; "" the body's
            end.
        passed: Decayed weight of how often what follows was looked at.
        seen: How often that was.
        above: What answers for it, as long as it knows too little; None above all.
        deeper: Of a call site: by depth.
        touched: Places of the same table that have learned since somebody asked.
    """

    __slots__ = (
        "above",
        "deeper",
        "depth",
        "learned",
        "nexts",
        "passed",
        "seen",
        "site",
        "template",
        "touched",
    )

    def __init__(
        self,
        template: str,
        site: str,
        depth: int | None,
        above: SiteEstimates | None,
        touched: dict[SiteEstimates, None],
    ) -> None:
        self.template = template
        self.site = site
        self.depth = depth
        self.above = above
        self.learned: dict[Quantity, Learned] = {}
        self.nexts: dict[str, float] = {}
        self.passed = 0.0
        self.seen = 0
        self.deeper: dict[int, SiteEstimates] = {}
        self.touched = touched

    def observe(self, quantity: Quantity, value: float) -> None:
        """Learn one value, here and above.

        Above only a place's first eight values are learned and every eighth then: so a busy place
        neither drowns others out there nor costs thrice.
        """
        learned = self.learned.get(quantity)
        if learned is None:
            learned = self.learned[quantity] = Learned()
        learned.add(value)
        self.touched[self] = None
        above = self.above
        count = learned.count
        if above is not None and (count <= _ALL_OF_FIRST or count % _EVERY == 0):
            above.observe(quantity, value)

    def of(self, quantity: Quantity) -> Learned | None:
        """What is known of a quantity here; the place above answers for fewer than three samples.

        None when nobody has three.
        """
        place: SiteEstimates | None = self
        while place is not None:
            learned = place.learned.get(quantity)
            if learned is not None and learned.count >= FEW:
                return learned
            place = place.above
        return None

    def mean(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """Mean of a quantity, or `otherwise` when nothing is known."""
        learned = self.of(quantity)
        return otherwise if learned is None else learned.mean

    def p50(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """Median of a quantity, or `otherwise` when nothing is known."""
        learned = self.of(quantity)
        return otherwise if learned is None else learned.quantile(0.5)

    def p90(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """What nine of ten stay within, or `otherwise` when nothing is known."""
        learned = self.of(quantity)
        return otherwise if learned is None else learned.quantile(0.9)

    def follow(self, sites: Iterable[str]) -> None:
        """Learn what followed one passage through this place; "" for the end of the body."""
        for site in self.nexts:
            self.nexts[site] *= DECAY
        self.passed = self.passed * DECAY + 1.0
        self.touched[self] = None
        self.seen += 1
        for site in sites:
            self.nexts[site] = self.nexts.get(site, 0.0) + 1.0
        if len(self.nexts) > MOST_NEXTS:  # a program that makes names up
            del self.nexts[min(self.nexts, key=lambda site: self.nexts[site])]

    def known_at(self, depth: int) -> SiteEstimates:
        """This site at a depth of its run, where that is known; else itself."""
        return self.deeper.get(depth_class(depth), self) if self.deeper else self

    def follows(self) -> dict[str, float]:
        """Call site -> probability that it follows, the likeliest first; empty below 3 samples.

        Sites that follow side by side have probabilities of their own: they may sum to over 1.
        """
        if self.seen < FEW:
            return {}
        shares = {site: weight / self.passed for site, weight in self.nexts.items()}
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    def rows(self) -> Iterator[EstimateRow]:
        """What is known here as plain data."""
        for quantity, learned in self.learned.items():
            yield self._row(quantity, learned.count, learned.sums())
        if self.seen:
            sums = {f"next:{site}": weight for site, weight in self.nexts.items()}
            yield self._row("next", self.seen, {**sums, "weight": self.passed})

    def _row(self, quantity: str, count: int, sums: dict[str, float]) -> EstimateRow:
        return EstimateRow(self.template, self.site, self.depth, quantity, count, sums)


class Estimates:
    """All places. See the module."""

    def __init__(self, rows: Iterable[EstimateRow] = ()) -> None:
        self._touched: dict[SiteEstimates, None] = {}
        self._all = SiteEstimates("", "", None, None, self._touched)
        self._places: dict[tuple[str, str], SiteEstimates] = {("", ""): self._all}
        self._count = 1
        self.take(rows)

    def place(self, template: str, site: str = "", depth: int | None = None) -> SiteEstimates:
        """The place of a call site in a template, known or new.

        Args:
            template: The program that was started.
            site: Call site (`site_of` spells it), or "" for the template as a whole.
            depth: Depth in the run, or None for any (see `depth_class`).
        """
        place = self._places.get((template, site))
        if place is None:
            above = self.place(template) if site else self._all
            place = self._places[template, site] = SiteEstimates(
                template, site, None, above, self._touched
            )
            self._added()
        return place if depth is None else self.at(place, depth)

    def at(self, place: SiteEstimates, depth: int) -> SiteEstimates:
        """A call site at one depth of its run, known or new."""
        depth = depth_class(depth)
        deep = place.deeper.get(depth)
        if deep is None:
            deep = place.deeper[depth] = SiteEstimates(
                place.template, place.site, depth, place, self._touched
            )
            self._added()
        return deep

    def find(self, template: str, site: str = "") -> SiteEstimates | None:
        """A place that is known, or None."""
        return self._places.get((template, site))

    def __len__(self) -> int:
        return self._count

    def take(self, rows: Iterable[EstimateRow]) -> None:
        """Know what rows tell, instead of what was known of the same places.

        Raises:
            ValueError: One is no row of ours.
        """
        for row in rows:
            self._take(row)

    def places(self) -> Iterator[SiteEstimates]:
        """All of them, each call site before its depths."""
        for site in self._places.values():
            yield site
            yield from site.deeper.values()

    def rows(self) -> Iterator[EstimateRow]:
        """Everything as plain data."""
        for place in self.places():
            yield from place.rows()

    def news(self) -> list[EstimateRow]:
        """All that is known of the places which have learned since this was asked last."""
        rows = [row for place in self._touched for row in place.rows()]
        self._touched.clear()
        return rows

    def _added(self) -> None:
        """Names that programs make up without end must not fill the memory: the older half goes.

        Templates stay while one of their sites does.
        """
        self._count += 1
        if self._count <= MOST_PLACES:
            return
        keys = list(self._places)
        keep = set(keys[len(keys) // 2 :])
        keep |= {(template, "") for template, _ in keep} | {("", "")}
        self._places = {key: self._places[key] for key in keys if key in keep}
        if len(keep) == len(keys):  # few sites of many depths
            for place in self._places.values():
                place.deeper = {}
        self._count = sum(1 + len(place.deeper) for place in self._places.values())

    def _take(self, row: EstimateRow) -> None:
        """Raises `ValueError` when it is no row of ours."""
        place = self.place(row.template, row.site, row.depth)
        if row.quantity == "next":
            place.seen = row.count
            place.passed = row.sums.get("weight", 0.0)
            if place.passed <= NOTHING:
                raise ValueError("these are no sums of what followed: they weigh nothing")
            place.nexts = {
                name.removeprefix("next:"): weight
                for name, weight in row.sums.items()
                if name.startswith("next:") and weight > NOTHING
            }
        elif row.quantity in QUANTITIES:
            place.learned[row.quantity] = Learned.of(row.count, row.sums)
        else:
            raise ValueError(f"{row.quantity!r} is nothing that is learned")


def depth_class(depth: int) -> int:
    """Depths up to 16 stand for themselves, then four at a time, all beyond 40 together."""
    if depth <= EXACT_DEPTH:
        return depth
    return min(MOST_DEPTH, depth - (depth - 1) % 4 + 3)


def site_of(name: str, where: str) -> str:
    """A call site as places spell it: what it is called, and `file:line`."""
    return f"{name} {where}" if where else name


def chain(estimates: Estimates, template: str, first: str, most: int = 12) -> dict[str, float]:
    """The likeliest call sites from `first` on, each with its median time; for people."""
    found: dict[str, float] = {}
    site = first
    while site and site not in found and len(found) < most:
        place = estimates.find(template, site)
        if place is None:
            break
        found[site] = place.p50("tool_s" if "tool_s" in place.learned else "busy_s")
        site = next(iter(place.follows()), "")
    return found
