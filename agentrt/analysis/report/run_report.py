"""The whole report of a run as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import critical_path
from agentrt.analysis.html_page import document
from agentrt.analysis.latency_split import path_stages, split
from agentrt.analysis.parallelism import parallelism
from agentrt.analysis.report.bars import bars
from agentrt.analysis.report.call_sites import outcome_counts
from agentrt.analysis.report.error_view import run_error, trouble_section
from agentrt.analysis.report.expert_view import expert_section
from agentrt.analysis.report.graph_view import graph_section
from agentrt.analysis.report.program_graph import program_graph
from agentrt.analysis.report.style import style
from agentrt.analysis.report.time_views import path_section, split_section, what_if_section
from agentrt.analysis.report.timeline_view import timeline_section
from agentrt.analysis.report.token_views import prefix_section, token_section
from agentrt.analysis.report.words import TIMES, counted, duration, share
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.stage import Label
from agentrt.analysis.usage import usage
from agentrt.analysis.what_if import WhatIf, what_ifs
from agentrt.base.money import money_text

_CONTENTS = (
    ("split", "Time"),
    ("what-if", "What if"),
    ("timeline", "Timeline"),
    ("path", "Path"),
    ("graph", "Graph"),
    ("prefixes", "Prefixes"),
    ("tokens", "Tokens"),
    ("experts", "Experts"),
    ("errors", "Errors"),
    ("transcript", "Transcript"),
)


def run_report(record: RunRecord, more: Sequence[str] = (), causes: Causes | None = None) -> str:
    """The page of a run, however it ended: it loads nothing and runs nothing.

    Its size is bounded: large runs are folded by call site.

    Args:
        record: The run.
        more: Further sections as HTML, such as the transcript.
        causes: Causes of the same record, if already known.
    """
    causes = causes or Causes(record)
    path = critical_path(record, causes)
    on_path = path_stages(record, path, causes)
    parts = split(record, path, causes).parts()
    found = what_ifs(record, path, causes)
    sections = [
        split_section(parts, record.compound_s),
        what_if_section(found, record),
        timeline_section(record, bars(record, path, causes), on_path),
        path_section(record, path, causes),
        graph_section(program_graph(record, path, causes)),
        prefix_section(record),
        token_section(record),
        expert_section(record),
        trouble_section(record),
        *more,
    ]
    shown = [one for one in sections if one]
    name = record.started.program if record.started else "run"
    body = "\n".join(
        [
            "<main>",
            _head(record, parts, found, causes),
            _contents(shown),
            *shown,
            _foot(record),
            "</main>",
        ]
    )
    return document(f"{name}, {duration(record.compound_s)} · agentrt", body, style=style())


def _head(
    record: RunRecord, parts: dict[Label, float], found: tuple[WhatIf, ...], causes: Causes
) -> str:
    started = record.started
    name = started.program if started else "run"
    outcome = record.outcome
    facts = [started.source if started else "", _date(record), f"run {record.run_id}"]
    about = " · ".join(escape(fact) for fact in facts if fact)
    return (
        f'<header><p class="eyebrow">agentrt run report</p><h1>{escape(name)} '
        f'<span class="pill {outcome}">{outcome}</span></h1><p class="about">{about}</p>'
        f'<p class="lead">{_lead(record, parts, found)}</p>{run_error(record)}'
        f"{_tiles(record, causes)}</header>"
    )


def _lead(record: RunRecord, parts: dict[Label, float], found: tuple[WhatIf, ...]) -> str:
    """The run in two sentences."""
    whole_s = record.compound_s
    top = max(parts, key=lambda label: parts[label])
    text = f"<b>{duration(whole_s)}</b> from submit to result"
    if parts[top] > 0.0:
        text += f", {share(parts[top], whole_s)} of it <b>{top}</b>"
    best = found[0] if found else None
    if best is not None and best.saved_s > 0.02 * whole_s:
        change = (
            best.change[0].lower() + best.change[1:] if best.change[:2].istitle() else best.change
        )
        text += f". The largest gain in sight: <b>{escape(change)}</b>, {duration(best.saved_s)}"
    return f"{text}."


def _tiles(record: RunRecord, causes: Causes) -> str:
    used = usage(record)
    counts = outcome_counts(record)
    at_once = parallelism(record, causes)
    ended = [f"{counts[one]:,} {one}" for one in ("failed", "cancelled", "open") if counts[one]]
    tiles = [
        ("End to end", duration(record.compound_s), _deadline(record)),
        ("Nodes", f"{len(record.nodes):,}", ", ".join(ended) or "all ok"),
        ("Parallelism", f"{at_once:.{1 if at_once < 100 else 0}f}{TIMES}", "nodes at work, mean"),
    ]
    if used.input_tokens or used.output_tokens:
        reused = f"{share(used.cached_tokens, used.input_tokens)} from the cache"
        forced = f"{used.forced_tokens:,} given by grammars" if used.forced_tokens else "tokens"
        tiles.append(("Tokens in", f"{used.input_tokens:,}", reused))
        tiles.append(("Tokens out", f"{used.output_tokens:,}", forced))
    if used.currency:
        lost_pico = used.discarded_cost_pico
        discarded = f", {money_text(lost_pico, '')} discarded" if lost_pico else ""
        tiles.append(("Cost", money_text(used.cost_pico, ""), used.currency + discarded))
    made = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(figure)}<small>{escape(about)}</small></dd></div>"
        for name, figure, about in tiles
    )
    return f'<dl class="tiles">{"".join(made)}</dl>'


def _deadline(record: RunRecord) -> str:
    deadline_s = record.started.deadline_s if record.started else None
    if deadline_s is None:
        return "no deadline"
    met = "within" if record.compound_s <= deadline_s else "past"
    return f"{met} its deadline of {duration(deadline_s)}"


def _date(record: RunRecord) -> str:
    if record.started is None:
        return ""
    at = datetime.fromtimestamp(record.started.unix_ns / 1e9, tz=UTC)
    return at.strftime("%d %B %Y, %H:%M:%S UTC")


def _contents(shown: Sequence[str]) -> str:
    links = (
        f'<a href="#{name}">{title}</a>'
        for name, title in _CONTENTS
        if any(one.startswith(f'<section id="{name}"') for one in shown)
    )
    return f'<nav aria-label="Contents">{"".join(links)}</nav>'


def _foot(record: RunRecord) -> str:
    return (
        f'<footer class="about">Trace {record.trace_id}. Times are on the caller\'s '
        f"clock. {counted(len(record.nodes), 'node')} recorded.</footer>"
    )
