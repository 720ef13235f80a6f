"""Tokens, cost and drafts of a run by call site."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.usage import Usage


@dataclass(slots=True)
class SiteUsage:
    """Usage of the generations of one call site on one model.

    Attributes:
        name: Name of the call site.
        model: Model as the engine names it; "" if nothing was sent.
        calls: Number of generations.
        used: Their tokens and cost, failed answers included.
    """

    name: str
    model: str
    calls: int = 0
    used: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class DraftUsage:
    """Drafted tokens of a run from one source."""

    source: str
    accepted_tokens: int = 0
    rejected_tokens: int = 0


def site_usages(record: RunRecord) -> tuple[SiteUsage, ...]:
    """Usage of each call site, most tokens first."""
    found: dict[tuple[str, str], SiteUsage] = {}
    for node in record.leaves():
        if node.kind != "generate":
            continue
        model = node.sent[-1].model if node.sent else ""
        site = found.setdefault((node.name, model), SiteUsage(node.name, model))
        site.calls += 1
        _add(site.used, node)
    ranked = sorted(
        found.values(), key=lambda one: -(one.used.input_tokens + one.used.output_tokens)
    )
    return tuple(ranked)


def draft_usages(record: RunRecord) -> tuple[DraftUsage, ...]:
    """Drafted tokens by source, most accepted first; sources without any are left out."""
    found: dict[str, DraftUsage] = {}
    for node in record.leaves():
        ledgers = [attempt.ledger for _, attempt in node.failed]
        ledgers += [node.ledger] if node.ledger is not None else []
        for ledger in ledgers:
            for drafts in ledger.drafts:
                one = found.setdefault(drafts.source, DraftUsage(drafts.source))
                one.accepted_tokens += drafts.accepted_tokens
                one.rejected_tokens += drafts.rejected_tokens
    return tuple(sorted(found.values(), key=lambda one: -one.accepted_tokens))


def outcome_counts(record: RunRecord) -> Counter[str]:
    """Number of nodes by their outcome; "open" stands for those that never ended."""
    return Counter(node.outcome or "open" for node in record.nodes.values())


def _add(used: Usage, node: NodeRecord) -> None:
    for _, attempt in node.failed:
        used.add(attempt.ledger, is_discarded=True)
    if node.ledger is not None:
        used.add(node.ledger, is_discarded=node.outcome == "cancelled")
