"""Learned estimates: a table for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentrt.cli.stored_rows import StoredRows, by_engines, table, title
from agentrt.runtime.estimate_store.database import fits
from agentrt.scheduler.estimates.estimates import QUANTITIES, Estimates, SiteEstimates
from agentrt.scheduler.estimates.row import CALLS

SCHEMA = "agentrt.estimates/1"
HEAD = ("call site", "seen", "tokens", "takes", "rest", "path", "depth", "then")

FACTS = ("count", "mean", "p50", "p90", "log_mean", "log_var")


def lines_of(stored: StoredRows, pattern: str, width: int | None = None) -> list[str]:
    """A table for each program and set of engines; quantiles are p50/p90.

    Args:
        stored: Rows, each with the name of its engines.
        pattern: Call sites or programs that are shown.
        width: Characters of a line, as far as the figures fit; None sets no limit.
    """
    lines: list[str] = []
    for engines, entries in _by_engines(stored, pattern):
        by_template: dict[str, list[SiteEstimates]] = {}
        for entry in entries:
            if entry.depth is None and entry.site:
                by_template.setdefault(entry.template, []).append(entry)
        for template, sites in by_template.items():
            if lines:
                lines.append("")
            lines += title(template, engines, width)
            lines += table([HEAD, *(_cells(entry) for entry in sites)], width)
    return lines


def as_object(stored: StoredRows, pattern: str) -> dict[str, Any]:
    """All estimates as data, each depth included."""
    found = [
        {"engines": engines, "template": p.template, "site": p.site, "depth": p.depth, **_data(p)}
        for engines, entries in _by_engines(stored, pattern)
        for p in entries
        if p.histograms or p.next_count
    ]
    return {"schema": SCHEMA, "places": found}


def _by_engines(stored: StoredRows, pattern: str) -> Iterable[tuple[str, list[SiteEstimates]]]:
    known = ((engines, row) for engines, row in stored if row.quantity != CALLS)
    for engines, rows in by_engines(known):
        entries = [p for p in Estimates(rows).sites() if fits(pattern, p.template, p.site)]
        yield engines, entries


def _data(entry: SiteEstimates) -> dict[str, Any]:
    quantities = {
        name: {fact: getattr(learned, fact) for fact in FACTS}
        for name in QUANTITIES
        if (learned := entry.histograms.get(name)) is not None
    }
    return {"quantities": quantities, "follows": entry.next_probabilities()}


def _cells(entry: SiteEstimates) -> tuple[str, ...]:
    learned = entry.histograms
    site = _short(entry.site)
    seen = max([one.count for one in learned.values()], default=entry.next_count)
    takes = "tool_s" if "tool_s" in learned else "busy_s"
    if "context_tokens" in learned:  # only the peak of a run on one engine
        return (site, str(seen), _tokens(entry, "context_tokens"), *[""] * 5)
    depth = learned.get("depth")
    then = ", ".join(
        f"{site.partition(' ')[0] or 'end'} {share:.0%}"
        for site, share in list(entry.next_probabilities().items())[:3]
    )
    return (
        site,
        str(seen),
        _tokens(entry, "output_tokens"),
        _seconds(entry, takes),
        _seconds(entry, "rest_s"),
        _seconds(entry, "path_s"),
        "" if depth is None else f"{depth.mean:.1f}",
        then,
    )


def _short(site: str) -> str:
    """A call site with the name of its file, without the folder."""
    name, _, where = site.partition(" ")
    return f"{name} {where.rpartition('/')[2]}" if "/" in where else site


def _tokens(entry: SiteEstimates, name: Any) -> str:
    learned = entry.histograms.get(name)
    return "" if learned is None else f"{learned.p50:.0f}/{learned.p90:.0f}"


def _seconds(entry: SiteEstimates, name: Any) -> str:
    learned = entry.histograms.get(name)
    if learned is None:
        return ""
    half, most = _s(learned.p50), _s(learned.p90)
    return f"{half.removesuffix('ms')}/{most}" if most.endswith("ms") else f"{half}/{most}"


def _s(seconds: float) -> str:
    return f"{seconds * 1000:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"
