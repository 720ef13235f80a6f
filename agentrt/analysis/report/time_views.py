"""Sections of the report on time: the split, the estimates and the critical path."""

from __future__ import annotations

from html import escape

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import PathStep
from agentrt.analysis.html_page import folded, section, table
from agentrt.analysis.latency_split import step_stages
from agentrt.analysis.report.words import LABEL_WORDS, LEAST_S, counted, duration, share, shortened
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.stage import LABELS, Label
from agentrt.analysis.what_if import WhatIf, cut_off_names

MAX_STEPS = 40
_LEAST_SHARE_IN_BAR = 0.08  # of the bar, for a figure inside
_LEAST_SAVING = 0.002  # of the run, to be told as more than nothing


def split_section(parts: dict[Label, float], compound_s: float) -> str:
    """Bar and legend of the end-to-end split."""
    used = [label for label in LABELS if parts[label] >= LEAST_S]
    bar = "".join(_piece(label, parts[label], compound_s) for label in used)
    rows = "".join(
        f'<li><span class="chip b-{label}"></span><b>{label}</b>'
        f'<span class="figure">{duration(parts[label])}</span>'
        f'<span class="percent">{share(parts[label], compound_s)}</span>'
        f'<span class="about">{escape(LABEL_WORDS[label])}</span></li>'
        for label in sorted(used, key=lambda label: -parts[label])
    )
    spoken = ", ".join(f"{label} {share(parts[label], compound_s)}" for label in used)
    return section(
        "split",
        "Where the time went",
        _note(
            f"All {duration(compound_s)} from submit to result, as the critical path spent them. "
            "Work beside the path cost the caller nothing."
        ),
        f'<div class="split" role="img" aria-label="{escape(spoken)}">{bar}</div>',
        f'<ul class="legend">{rows}</ul>',
    )


def what_if_section(found: tuple[WhatIf, ...], record: RunRecord) -> str:
    """Estimates, the largest saving first; those that save nothing behind a fold."""
    compound_s = record.compound_s
    if record.is_cut_off:
        unknown = "The run was cut off before its end: what would have been left is not known."
        return section("what-if", "What would make it faster", _note(unknown))
    useful = [one for one in found if one.saved_s > _LEAST_SAVING * compound_s]
    rest = [one for one in found if one not in useful]
    parts = [
        _note(
            "Replays of this run's own graph with one thing changed. Contention is not simulated, "
            "so these are estimates."
        )
    ]
    if useful:
        parts.append(
            f'<ul class="what-ifs">{"".join(_saving(one, compound_s) for one in useful)}</ul>'
        )
    if rest:
        items = "".join(f"<li>{escape(one.change)}: {escape(one.basis)}</li>" for one in rest)
        parts.append(
            folded(f"{counted(len(rest), 'change')} would save nothing", f"<ul>{items}</ul>")
        )
    if cut := cut_off_names(record):
        parts.append(
            _note(
                f"Cut off before their end, so that they keep the time they had: "
                f"{shortened(', '.join(cut), 200)}."
            )
        )
    return section("what-if", "What would make it faster", *parts)


def path_section(record: RunRecord, path: tuple[PathStep, ...], causes: Causes) -> str:
    """Steps of the critical path in order, the longest ones if there are many."""
    ranked = sorted(path, key=lambda step: -step.length_s)
    chosen = {id(step) for step in ranked[:MAX_STEPS] if step.length_s > 0.0}
    rest = [step for step in path if id(step) not in chosen]
    rows = [
        (
            shortened(_step_name(step), 60),
            duration(step.length_s),
            share(step.length_s, record.compound_s),
            duration(step.started_at_s - record.started_at_s),
            _step_work(record, step, causes),
        )
        for step in path
        if id(step) in chosen
    ]
    parts = [
        _note(
            "The chain of waits from submit to result: only what stands here can make it faster."
        ),
        table(("step", "took", "share", "from", "what it did"), rows),
    ]
    rest_s = sum(step.length_s for step in rest)
    if rest_s > 0.0:
        parts.append(
            _note(f"{counted(len(rest), 'shorter step')}, {duration(rest_s)} together, left out.")
        )
    return section("path", "Critical path", *parts)


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _piece(label: Label, seconds: float, compound_s: float) -> str:
    part = seconds / compound_s if compound_s > 0.0 else 0.0
    figure = share(seconds, compound_s) if part >= _LEAST_SHARE_IN_BAR else ""
    title = f"{label}: {duration(seconds)}, {LABEL_WORDS[label]}"
    return (
        f'<span class="b-{label}" style="width:{100 * part:.3f}%" title="{escape(title)}">'
        f"{figure}</span>"
    )


def _saving(one: WhatIf, compound_s: float) -> str:
    left = 100 * one.compound_s / compound_s
    words = (
        f"<b>{escape(one.change)}</b><span class=figure>saves {duration(one.saved_s)}"
        f" <small>{share(one.saved_s, compound_s)}</small></span>"
        f"<span class=about>{escape(one.basis)}; {duration(one.compound_s)} would be left</span>"
    )
    return (
        f'<li>{words}<span class="gauge" aria-hidden="true">'
        f'<i style="width:{left:.2f}%"></i></span></li>'
    )


def _step_name(step: PathStep) -> str:
    name = step.node_id.partition("/")[2] or step.node_id
    match step.part:
        case "submit":
            return "submit"
        case "code":
            return f"code of {name}"
        case "stop":
            return f"end of {name}, cancelled"
        case "work":
            return name if step.item is None else f"{name}, item {step.item}"


def _step_work(record: RunRecord, step: PathStep, causes: Causes) -> str:
    if step.part == "submit":
        return "until the program began"
    spent: dict[Label, float] = {}
    for stage in step_stages(record, step, causes):
        for label, seconds in stage.within(stage.started_at_s, stage.ended_at_s):
            spent[label] = spent.get(label, 0.0) + seconds
    longest = sorted(spent, key=lambda label: -spent[label])[:3]
    shown = [f"{label} {duration(spent[label])}" for label in longest if spent[label] >= 5e-5]
    return ", ".join(shown) or (longest[0] if longest else "")
