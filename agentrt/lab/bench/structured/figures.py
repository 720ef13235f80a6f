"""Figures of the answers: coverage, faults, times, forced tokens, closings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.analysis.statistics import spread
from agentrt.lab.bench.structured.measure import CaseReply, Measured

GROUPS = ("own", "suite", "suite optional", "regex", "grammar")
KINDS = ("json", "pattern", "regex", "grammar")
_SHOWN_FAULTS = 40


def figures(found: Measured) -> dict[str, Any]:
    """All figures of one library over one vocabulary."""
    groups = {name: [one for one in found.replies if one.case.group == name] for name in GROUPS}
    kinds = {name: [one for one in found.replies if one.case.kind == name] for name in KINDS}
    here = {name: replies for name, replies in kinds.items() if replies}
    return {
        "coverage": {name: coverage(replies) for name, replies in groups.items() if replies},
        "refusals": dict(_refusals(found.replies).most_common()),
        "compile_ms": {name: _compile_ms(replies) for name, replies in here.items()},
        "mask_us": {name: _mask_us(replies) for name, replies in here.items()},
        "rows_us": {name: _rows_us(found.rows, name) for name in KINDS},
        "forced": {name: _forced(replies) for name, replies in here.items()},
        "closing": _closing(found.replies),
    }


def coverage(replies: Sequence[CaseReply]) -> dict[str, Any]:
    """Share of constraints that compile, and texts of these that were judged wrongly."""
    compiled = [one for one in replies if one.compiled]
    judged = [
        (one, text, walk["taken"], one.excused.get(at, ""))
        for one in compiled
        for at, (text, walk) in enumerate(zip(one.case.texts, one.answer["walks"], strict=True))
    ]
    invalid = [taken for _, text, taken, _ in judged if not text.valid]
    faults = [
        f"{one.case.name} {'took' if taken else 'refused'} {text.text[:80]}"
        for one, text, taken, excuse in judged
        if taken != text.valid and not excuse
    ]
    refused = [excuse for _, text, taken, excuse in judged if text.valid and not taken]
    return {
        "cases": len(replies),
        "compiled": len(compiled),
        "share": len(compiled) / len(replies),
        "failed": sum("failed" in one.answer for one in replies),
        "texts": len(judged),
        "right": sum(taken == text.valid for _, text, taken, _ in judged),
        "false_accepts": sum(invalid),
        "invalid_texts": len(invalid),
        "valid_refused": dict(Counter(excuse or "no excuse" for excuse in refused)),
        "faults": faults[:_SHOWN_FAULTS],
    }


def _refusals(replies: Sequence[CaseReply]) -> Counter[str]:
    """Refusals by keyword, or by the first words of the message."""
    return Counter(
        one.answer.get("keyword") or str(one.answer.get("refused", one.answer.get("failed")))[:60]
        for one in replies
        if not one.compiled
    )


def _compile_ms(replies: Sequence[CaseReply]) -> dict[str, dict[str, float]]:
    """From the declaration to the first mask, by the wall clock and by the processors' clocks."""
    answers = [one.answer for one in replies if one.compiled]
    return {
        "wall": spread([(one["declare_ns"] + one["compile_ns"]) / 1e6 for one in answers]),
        "cpu": spread([one["compile_cpu_ns"] / 1e6 for one in answers]),
    }


def _mask_us(replies: Sequence[CaseReply]) -> dict[str, dict[str, float]]:
    walks = [walk for one in replies if one.compiled for walk in one.answer["walks"]]
    return {
        clock: spread([ns / 1e3 for walk in walks for ns in walk[f"{clock}_ns"]])
        for clock in ("wall", "cpu")
    }


def _rows_us(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, dict[str, float]]:
    """Times by the way of filling: `pool` as the engine does it, `alone` without threads."""
    times: dict[str, list[float]] = {}
    for row in rows:
        for how, wall_ns in row.get("wall_ns", {}).items() if row["kind"] == kind else ():
            times.setdefault(how, []).extend(ns / 1e3 for ns in wall_ns)
    return {how: spread(values) for how, values in times.items()}


def _forced(replies: Sequence[CaseReply]) -> dict[str, float]:
    rows = [row for one in replies for row in one.answer.get("forced", ())]
    tokens = sum(row["tokens"] for row in rows)
    forced = sum(row["forced"] for row in rows)
    return {
        "tokens": tokens,
        "forced": forced,
        "share": forced / tokens if tokens else 0.0,
        "spelled_otherwise": sum(row["other"] for row in rows),
    }


def _closing(replies: Sequence[CaseReply]) -> dict[str, Any]:
    """By budget: the number of outputs, and how many of them are valid."""
    asked = [one for one in replies if one.closing is not None]
    outputs = [(one, row) for one in asked for row in (one.closing or {}).get("closings", ())]
    by_budget: dict[str, Counter[str]] = {}
    for _, row in outputs:
        counts = by_budget.setdefault(f"min+{row['more']}", Counter())
        counts.update(outputs=1, valid=not row["wrong"], steered=bool(row["steered"]))
    faults = [f"{one.case.name}: {row['wrong']}" for one, row in outputs if row["wrong"]]
    return {
        "constraints": len(asked),
        "not_closable": [one.case.name for one in asked if not (one.closing or {}).get("closings")],
        "by_budget": {budget: dict(counts) for budget, counts in by_budget.items()},
        "faults": faults[:_SHOWN_FAULTS],
    }
