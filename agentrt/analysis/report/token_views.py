"""Sections of the report on tokens: prefix reuse, usage by call site, drafts and saved work."""

from __future__ import annotations

from html import escape

from agentrt.analysis.html_page import section, table
from agentrt.analysis.report.call_sites import DraftUsage, SiteUsage, draft_usages, site_usages
from agentrt.analysis.report.prefix_tree import LOST_WORDS, PromptBranch, prefix_tree
from agentrt.analysis.report.words import counted, share, shortened, times
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.saved_work import saved_work
from agentrt.analysis.usage import Usage, usage
from agentrt.base.money import money_text

MAX_SITES = 30
_SOURCE_WORDS = {
    "grammar": "text that the grammar forces",
    "site": "earlier outputs of the same call site",
    "sibling": "unfinished outputs of the same call site",
    "prompt": "the request's own prompt and output",
    "model": "a draft model",
    "eagle": "a head of the model",
}


def prefix_section(record: RunRecord) -> str:
    """The tree of prompts with what each reused; "" without generations."""
    tree = prefix_tree(record)
    if not tree.branches:
        return ""
    note = (
        "Each prompt below the one whose answer it continues. Solid is found in the prefix cache, "
        "outlined is computed anew."
    )
    parts = [f'<p class="note">{note}</p>', f'<ul class="tree">{_branches(tree.branches)}</ul>']
    if tree.left_out:
        left = counted(tree.left_out, "more generation")
        parts.append(f'<p class="note">{left}, deeper or further down, left out.</p>')
    return section("prefixes", "Prefix reuse", *parts)


def token_section(record: RunRecord) -> str:
    """Tokens and cost by call site, drafts by source, and other work saved; "" without any."""
    sites = site_usages(record)
    if not sites:
        return ""
    parts = [_site_table(record, sites)]
    if len(sites) > MAX_SITES:
        left = counted(len(sites) - MAX_SITES, "call site")
        parts.append(f'<p class="note">{left} with fewer tokens left out.</p>')
    drafts = draft_usages(record)
    if drafts:
        parts.append(f"<h3>Drafts</h3>{_draft_table(drafts)}")
    saved = saved_work(record).text()
    if saved:
        parts.append(f'<p class="note">Work saved or done ahead: {escape(saved)}.</p>')
    return section("tokens", "Tokens and cost" if usage(record).currency else "Tokens", *parts)


def _branches(branches: tuple[PromptBranch, ...]) -> str:
    return "".join(_branch(one) for one in branches)


def _branch(one: PromptBranch) -> str:
    name = one.name + times(one.count)
    part = 100 * one.cached_tokens / one.prompt_tokens if one.prompt_tokens else 0.0
    words = f"{one.cached_tokens:,} of {counted(one.prompt_tokens, 'token')} reused"
    if one.turns > 1:
        words += f", over {one.turns} turns"
    if one.ahead_tokens:
        words += f"; {one.ahead_tokens:,} were there when the last part of the prompt came"
    lost = "".join(
        f'<span class="lost">⚠ {counted(tokens, "token")} lost: '
        f"{escape(LOST_WORDS.get(reason, reason))}</span>"
        for reason, tokens in one.lost
    )
    below = f"<ul>{_branches(one.branches)}</ul>" if one.branches else ""
    return (
        f'<li><div class="prompt"><b>{escape(name)}</b>'
        f'<span class="figure">{share(one.cached_tokens, one.prompt_tokens)}</span>'
        f'<span class="gauge" aria-hidden="true"><i style="width:{part:.2f}%"></i></span>'
        f'<span class="about">{words}</span>{lost}</div>{below}</li>'
    )


def _site_table(record: RunRecord, sites: tuple[SiteUsage, ...]) -> str:
    whole = usage(record)
    head = ["call site", "calls", "prompt", "cached", "output", "by grammar"]
    rows = [_site_row(one.name, one.calls, one.used, one.model) for one in sites[:MAX_SITES]]
    if len(sites) > 1:
        rows.append(_site_row("all", sum(one.calls for one in sites), whole, ""))
    return table([*head, *(["cost"] if whole.currency else []), "model"], rows)


def _site_row(name: str, calls: int, used: Usage, model: str) -> list[str]:
    counts = (calls, used.input_tokens, used.cached_tokens, used.output_tokens, used.forced_tokens)
    cost = [money_text(used.cost_pico, used.currency)] if used.currency else []
    return [shortened(name, 40), *(f"{count:,}" for count in counts), *cost, shortened(model, 40)]


def _draft_table(drafts: tuple[DraftUsage, ...]) -> str:
    rows = [
        (
            one.source,
            f"{one.accepted_tokens:,}",
            f"{one.rejected_tokens:,}",
            share(one.accepted_tokens, one.accepted_tokens + one.rejected_tokens),
            _SOURCE_WORDS.get(one.source, ""),
        )
        for one in drafts
    ]
    return table(("source", "accepted", "rejected", "share", "drafted from"), rows)
