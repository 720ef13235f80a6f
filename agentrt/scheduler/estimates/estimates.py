"""Estimates from past runs: learned quantities by call site.

One table. An entry is a call site of a program at some depth of its run. Its parent is the site at
any depth, above that the whole template (the program that was started), above that everything. An
entry with too few samples answers with its parent's.

Pure and deterministic: the same observations in the same order give the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from agentrt.base.record import record
from agentrt.scheduler.estimates.histogram import DecayedHistogram
from agentrt.scheduler.estimates.row import DECAY, NEGLIGIBLE, EstimateRow

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
"""Learned quantities:

    output_tokens   length of a generation's output
    tool_s          duration of a tool, all its attempts
    busy_s          of a generation: time in steps of its engine, without waiting; of a program or
                    a question: its duration
    rest_s          service (share of engines' steps) that the run still needed from this site on,
                    all branches
    path_s          time that the run still needed from there, on its longest path, without waiting
    depth           nodes on that path
    context_tokens  of a whole run: peak of its KV
    longest_tokens  of a whole run: longest context of one of its generations
    own_tokens      of a generation: KV that it computed itself, its output and the uncached part
                    of its prompt
    refused         runs that were refused because they could not meet their deadline
"""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_OF_OUTLOOK = frozenset({"rest_s", "path_s", "depth"})
MIN_SAMPLES = 3
MAX_DEPTH = 40
EXACT_DEPTH = 16
MAX_SITES = 4096
MAX_NEXT_SITES = 32
_ALL_OF_FIRST = 8
_EVERY = 8


@record
class Outlook:
    """Expected need of a run from a call site to its end.

    Attributes:
        path_p50_s: Median of the time on its longest path, in seconds.
        path_p90_s: Ninth decile of the same time.
        depth: Nodes on that path.
        rest_s: Service on all branches, in seconds.
    """

    path_p50_s: float
    path_p90_s: float
    depth: float
    rest_s: float


@dataclass(slots=True, eq=False)
class LearnedChanges:
    """Changes of a table of estimates.

    Attributes:
        sites: Entries that have learned since the last `changed_rows`.
        outlooks: How often anything was learned that an outlook is made of; only when a run ends.
    """

    sites: dict[SiteEstimates, None] = field(default_factory=dict)
    outlooks: int = 0


@dataclass(slots=True, eq=False, repr=False)
class SiteEstimates:
    """Estimates of one call site.

    Attributes:
        template: Program that was started.
        site: Call site in it, or "".
        depth: Depth in the run, or None for any.
        histograms: Histogram of each learned quantity.
        next_sites: Decayed weight of each call site that followed in the same program body; "" for
            the end of the body.
        next_weight: Decayed weight of all looks at the next site.
        next_count: Number of those looks.
        parent: Entry that answers while this one knows too little; None for the root.
        by_depth: Entries of a call site, by depth.
        changes: Changes of the whole table.
    """

    template: str
    site: str
    depth: int | None
    parent: SiteEstimates | None
    changes: LearnedChanges
    histograms: dict[Quantity, DecayedHistogram] = field(default_factory=dict)
    next_sites: dict[str, float] = field(default_factory=dict)
    next_weight: float = 0.0
    next_count: int = 0
    by_depth: dict[int, SiteEstimates] = field(default_factory=dict)
    _outlook: Outlook | None = None
    _outlook_at: int = -1

    def observe(self, quantity: Quantity, value: float) -> None:
        """Add one observation, here and to the parent.

        The parent gets only the first eight observations and then every eighth: so a busy site
        neither outweighs others there nor costs thrice.
        """
        learned = self.histograms.get(quantity)
        if learned is None:
            learned = self.histograms[quantity] = DecayedHistogram()
        learned.add_value(value)
        self.changes.sites[self] = None
        if quantity in _OF_OUTLOOK:
            self.changes.outlooks += 1
        above = self.parent
        count = learned.count
        if above is not None and (count <= _ALL_OF_FIRST or count % _EVERY == 0):
            above.observe(quantity, value)

    def histogram_of(self, quantity: Quantity) -> DecayedHistogram | None:
        """Histogram of a quantity, from the parent if there are fewer than three samples here.

        None if no ancestor has three either.
        """
        site: SiteEstimates | None = self
        while site is not None:
            learned = site.histograms.get(quantity)
            if learned is not None and learned.count >= MIN_SAMPLES:
                return learned
            site = site.parent
        return None

    def mean(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """Mean of a quantity, or `otherwise` if nothing is known."""
        learned = self.histogram_of(quantity)
        return otherwise if learned is None else learned.mean

    def p50(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """Median of a quantity, or `otherwise` if nothing is known."""
        learned = self.histogram_of(quantity)
        return otherwise if learned is None else learned.quantile(0.5)

    def p90(self, quantity: Quantity, otherwise: float = 0.0) -> float:
        """Ninth decile of a quantity, or `otherwise` if nothing is known."""
        learned = self.histogram_of(quantity)
        return otherwise if learned is None else learned.quantile(0.9)

    def outlook(self) -> Outlook | None:
        """Expected need of a run from here to its end, or None if nothing is known.

        Each new node of a run asks for it, and it changes only when a run ends.
        """
        if self._outlook_at != self.changes.outlooks:
            self._outlook_at = self.changes.outlooks
            path = self.histogram_of("path_s")
            self._outlook = None
            if path is not None:
                p50_s, p90_s = path.quantile(0.5), path.quantile(0.9)
                self._outlook = Outlook(p50_s, p90_s, self.mean("depth"), self.mean("rest_s"))
        return self._outlook

    def observe_next(self, sites: Iterable[str]) -> None:
        """Observe which sites followed this one; "" for the end of the body."""
        for site in self.next_sites:
            self.next_sites[site] *= DECAY
        self.next_weight = self.next_weight * DECAY + 1.0
        self.changes.sites[self] = None
        self.next_count += 1
        for site in sites:
            self.next_sites[site] = self.next_sites.get(site, 0.0) + 1.0
        if len(self.next_sites) > MAX_NEXT_SITES:  # a program that generates names
            del self.next_sites[min(self.next_sites, key=lambda site: self.next_sites[site])]

    def known_at_depth(self, depth: int) -> SiteEstimates:
        """Entry of this site at a depth of its run, if there is one; else itself."""
        return self.by_depth.get(depth_class(depth), self) if self.by_depth else self

    def next_probabilities(self) -> dict[str, float]:
        """Probability of each next call site, the likeliest first; empty below 3 samples.

        Sites that follow side by side have separate probabilities: they may sum to over 1.
        """
        if self.next_count < MIN_SAMPLES:
            return {}
        shares = {site: weight / self.next_weight for site, weight in self.next_sites.items()}
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    def rows(self) -> Iterator[EstimateRow]:
        """The entry as plain data."""
        for quantity, learned in self.histograms.items():
            yield self._row(quantity, learned.count, learned.to_sums())
        if self.next_count:
            sums = {f"next:{site}": weight for site, weight in self.next_sites.items()}
            yield self._row("next", self.next_count, {**sums, "weight": self.next_weight})

    def _row(self, quantity: str, count: int, sums: dict[str, float]) -> EstimateRow:
        return EstimateRow(self.template, self.site, self.depth, quantity, count, sums)


class Estimates:
    """All estimates; see the module."""

    def __init__(self, rows: Iterable[EstimateRow] = ()) -> None:
        self._changes = LearnedChanges()
        self._root = SiteEstimates("", "", None, None, self._changes)
        self._sites: dict[tuple[str, str], SiteEstimates] = {("", ""): self._root}
        self._count = 1
        self.load_rows(rows)

    def site(self, template: str, site: str = "", depth: int | None = None) -> SiteEstimates:
        """Entry of a call site in a template, known or new.

        Args:
            template: Program that was started.
            site: Call site (`site_of` spells it), or "" for the template as a whole.
            depth: Depth in the run, or None for any (see `depth_class`).
        """
        found = self._sites.get((template, site))
        if found is None:
            above = self.site(template) if site else self._root
            found = self._sites[template, site] = SiteEstimates(
                template, site, None, above, self._changes
            )
            self._count_site()
        return found if depth is None else self.site_at_depth(found, depth)

    def site_at_depth(self, site: SiteEstimates, depth: int) -> SiteEstimates:
        """Entry of a call site at one depth of its run, known or new."""
        depth = depth_class(depth)
        found = site.by_depth.get(depth)
        if found is None:
            found = site.by_depth[depth] = SiteEstimates(
                site.template, site.site, depth, site, self._changes
            )
            self._count_site()
        return found

    def find_site(self, template: str, site: str = "") -> SiteEstimates | None:
        """A known entry, or None."""
        return self._sites.get((template, site))

    def __len__(self) -> int:
        return self._count

    def load_rows(self, rows: Iterable[EstimateRow]) -> None:
        """Load rows; they replace what was known of the same entries.

        Raises:
            ValueError: A row is malformed.
        """
        for row in rows:
            self._load_row(row)

    def sites(self) -> Iterator[SiteEstimates]:
        """All entries, each call site before its depths."""
        for site in self._sites.values():
            yield site
            yield from site.by_depth.values()

    def rows(self) -> Iterator[EstimateRow]:
        """Everything as plain data."""
        for site in self.sites():
            yield from site.rows()

    def changed_rows(self) -> list[EstimateRow]:
        """Rows of the entries that have learned since the last call."""
        rows = [row for site in self._changes.sites for row in site.rows()]
        self._changes.sites.clear()
        return rows

    def _count_site(self) -> None:
        """Count a new entry. Above the limit the older half is dropped: names may be generated.

        Templates stay while one of their sites does.
        """
        self._count += 1
        if self._count <= MAX_SITES:
            return
        keys = list(self._sites)
        keep = set(keys[len(keys) // 2 :])
        keep |= {(template, "") for template, _ in keep} | {("", "")}
        self._sites = {key: self._sites[key] for key in keys if key in keep}
        if len(keep) == len(keys):  # few sites, many depths
            for site in self._sites.values():
                site.by_depth = {}
        self._count = sum(1 + len(site.by_depth) for site in self._sites.values())

    def _load_row(self, row: EstimateRow) -> None:
        """Load one row; raises `ValueError` if it is malformed."""
        site = self.site(row.template, row.site, row.depth)
        if row.quantity == "next":
            site.next_count = row.count
            site.next_weight = row.sums.get("weight", 0.0)
            if site.next_weight <= NEGLIGIBLE:
                raise ValueError("these are no sums of what followed: they weigh nothing")
            site.next_sites = {
                name.removeprefix("next:"): weight
                for name, weight in row.sums.items()
                if name.startswith("next:") and weight > NEGLIGIBLE
            }
        elif row.quantity in QUANTITIES:
            site.histograms[row.quantity] = DecayedHistogram.from_sums(row.count, row.sums)
            self._changes.outlooks += 1
        else:
            raise ValueError(f"{row.quantity!r} is nothing that is learned")


def depth_class(depth: int) -> int:
    """Depths up to 16 are separate, then grouped by four, and all beyond 40 together."""
    if depth <= EXACT_DEPTH:
        return depth
    return min(MAX_DEPTH, depth - (depth - 1) % 4 + 3)


def site_of(name: str, where: str) -> str:
    """Spelling of a call site: its name, and `file:line`."""
    return f"{name} {where}" if where else name


def likely_path(
    estimates: Estimates, template: str, first: str, max_sites: int = 12
) -> dict[str, float]:
    """Likeliest call sites from `first` on, each with its median time; for display."""
    found: dict[str, float] = {}
    site = first
    while site and site not in found and len(found) < max_sites:
        known = estimates.find_site(template, site)
        if known is None:
            break
        found[site] = known.p50("tool_s" if "tool_s" in known.histograms else "busy_s")
        site = next(iter(known.next_probabilities()), "")
    return found
