"""Section of the report on experts: how evenly tokens went to them, by layer and by call site."""

from __future__ import annotations

from html import escape

from agentrt.analysis.expert_load import (
    Counts,
    added,
    busiest_experts,
    cache_uses_by_site,
    layer_load,
    loads_by_site,
    mean_imbalance,
)
from agentrt.analysis.html_page import section, table
from agentrt.analysis.report.words import counted, share, shortened
from agentrt.analysis.run_record import RunRecord

MAX_LAYERS, MAX_SITES = 100, 30
_SHOWN_EXPERTS = 3


def expert_section(run: RunRecord) -> str:
    """Tables of each model whose experts were counted, and of its expert cache; "" without any."""
    by_model: dict[str, dict[str, Counts]] = {}
    for (model, site), counts in loads_by_site(run).items():
        by_model.setdefault(model, {})[site] = counts
    cached = cache_uses_by_site(run)
    if not by_model:
        return section("experts", "Experts", *_cache_table(cached)) if cached else ""
    note = (
        "Tokens that each expert took, in prompts and outputs; one that takes two counts twice. "
        "Imbalance is the busiest expert's part by the even one: 1 is even."
    )
    parts = [f'<p class="note">{note}</p>']
    for model, sites in by_model.items():
        if len(by_model) > 1:
            parts.append(f"<h3>{escape(shortened(model, 60))}</h3>")
        parts += [_site_table(sites), _layer_table(added(sites.values()))]
    return section("experts", "Experts", *parts, *_cache_table(cached))


def _cache_table(uses: dict[tuple[str, str], tuple[int, int]]) -> list[str]:
    """Hits and misses of the expert cache; nothing where memory is not bounded."""
    if not uses:
        return []
    note = (
        "Experts that steps found in fast memory, and those that they did not. A step counts for "
        "each of its requests."
    )
    ranked = sorted(uses.items(), key=lambda one: -sum(one[1]))[:MAX_SITES]
    rows = [
        [shortened(site, 40), f"{hits:,}", f"{misses:,}", share(hits, hits + misses)]
        for (_, site), (hits, misses) in ranked
    ]
    return [f'<p class="note">{note}</p>', table(("call site", "hits", "misses", "share"), rows)]


def _site_table(sites: dict[str, Counts]) -> str:
    ranked = sorted(sites.items(), key=lambda one: -_tokens(one[1]))[:MAX_SITES]
    rows = [
        [
            shortened(site, 40),
            f"{_tokens(counts):,}",
            f"{mean_imbalance(counts):.2f}",
            ", ".join(
                f"layer {layer} expert {expert}"
                for layer, expert, _ in busiest_experts(counts, _SHOWN_EXPERTS)
            ),
        ]
        for site, counts in ranked
    ]
    return table(("call site", "tokens", "mean imbalance", "busiest"), rows)


def _layer_table(counts: Counts) -> str:
    rows = []
    for number, layer in enumerate(counts[:MAX_LAYERS]):
        load = layer_load(layer)
        rows.append(
            [
                f"{number}",
                f"{load.tokens:,}",
                f"{load.busiest} ({share(load.busiest_tokens, load.tokens)})",
                f"{load.idle} of {len(layer)}",
                f"{load.imbalance:.2f}",
            ]
        )
    left = len(counts) - MAX_LAYERS
    more = f'<p class="note">{counted(left, "more layer")} left out.</p>' if left > 0 else ""
    return table(("layer", "tokens", "busiest expert", "idle", "imbalance"), rows) + more


def _tokens(counts: Counts) -> int:
    return sum(map(sum, counts))
