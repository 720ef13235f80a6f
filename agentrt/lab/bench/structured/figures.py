"""What the answers come to: coverage, faults, times, forced tokens, closings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.lab.bench.structured.measure import CaseReply, Measured

GROUPS = ("own", "suite", "suite optional", "regex", "grammar")
KINDS = ("json", "pattern", "regex", "grammar")


def figures(found: Measured) -> dict[str, Any]:
    """All figures of one library over one vocabulary."""
    groups = {name: [one for one in found.told if one.case.group == name] for name in GROUPS}
    kinds = {name: [one for one in found.told if one.case.kind == name] for name in KINDS}
    return {
        "coverage": {name: coverage(told) for name, told in groups.items() if told},
        "refusals": dict(_refusals(found.told).most_common()),
        "compile_ms": {name: _compile_ms(told) for name, told in kinds.items() if told},
        "mask_us": {name: _mask_us(told) for name, told in kinds.items() if told},
        "rows_us": {name: _rows_us(found.rows, name) for name in KINDS},
        "forced": {name: _forced(told) for name, told in kinds.items() if told},
        "closing": _closing(found.told),
    }


def coverage(told: Sequence[CaseReply]) -> dict[str, Any]:
    """What compiles, and which texts of that were judged wrongly."""
    compiled = [one for one in told if one.compiled]
    counts = Counter[str]()
    excused = Counter[str]()
    faults: list[str] = []
    for one in compiled:
        for at, text in enumerate(one.case.texts):
            taken = one.answer["walks"][at]["taken"]
            counts["texts"] += 1
            counts["right"] += taken == text.valid
            if taken and not text.valid:
                counts["false_accepts"] += 1
                faults.append(f"{one.case.name} took {text.text[:80]}")
            elif text.valid and not taken:
                excused[one.excused[at] or "no excuse"] += 1
                if not one.excused[at]:
                    faults.append(f"{one.case.name} refused {text.text[:80]}")
    return {
        "cases": len(told),
        "compiled": len(compiled),
        "share": len(compiled) / len(told),
        "failed": sum("failed" in one.answer for one in told),
        "texts": counts["texts"],
        "right": counts["right"],
        "false_accepts": counts["false_accepts"],
        "invalid_texts": sum(not text.valid for one in compiled for text in one.case.texts),
        "valid_refused": dict(excused),
        "faults": faults[:40],
    }


def _refusals(told: Sequence[CaseReply]) -> Counter[str]:
    """By keyword, else by the first words of the refusal."""
    return Counter(
        one.answer.get("keyword") or str(one.answer.get("refused", one.answer.get("failed")))[:60]
        for one in told
        if not one.compiled
    )


def _compile_ms(told: Sequence[CaseReply]) -> dict[str, dict[str, float]]:
    """From the declaration to the first mask, by the wall and by the processors' clocks."""
    answers = [one.answer for one in told if one.compiled]
    return {
        "wall": percentiles([(one["declare_ns"] + one["compile_ns"]) / 1e6 for one in answers]),
        "cpu": percentiles([one["compile_cpu_ns"] / 1e6 for one in answers]),
    }


def _mask_us(told: Sequence[CaseReply]) -> dict[str, dict[str, float]]:
    walks = [walk for one in told if one.compiled for walk in one.answer["walks"]]
    return {
        clock: percentiles([ns / 1e3 for walk in walks for ns in walk[f"{clock}_ns"]])
        for clock in ("wall", "cpu")
    }


def _rows_us(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, dict[str, float]]:
    """By how they are filled: `pool` as the engine does it, `alone` without threads."""
    times: dict[str, list[float]] = {}
    for row in rows:
        for how, wall_ns in row.get("wall_ns", {}).items() if row["kind"] == kind else ():
            times.setdefault(how, []).extend(ns / 1e3 for ns in wall_ns)
    return {how: percentiles(values) for how, values in times.items()}


def _forced(told: Sequence[CaseReply]) -> dict[str, float]:
    rows = [row for one in told for row in one.answer.get("forced", ())]
    tokens = sum(row["tokens"] for row in rows)
    forced = sum(row["forced"] for row in rows)
    return {
        "tokens": tokens,
        "forced": forced,
        "share": forced / tokens if tokens else 0.0,
        "spelled_otherwise": sum(row["other"] for row in rows),
    }


def _closing(told: Sequence[CaseReply]) -> dict[str, Any]:
    """By budget: how many outputs were written, and how many of them are valid."""
    asked = [one for one in told if one.closing is not None]
    outputs = [(one, row) for one in asked for row in (one.closing or {}).get("closings", ())]
    budgets = dict.fromkeys(row["more"] for _, row in outputs)
    return {
        "constraints": len(asked),
        "not_closable": [one.case.name for one in asked if not (one.closing or {}).get("closings")],
        "by_budget": {
            f"min+{more}": {
                "outputs": sum(row["more"] == more for _, row in outputs),
                "valid": sum(row["more"] == more and not row["wrong"] for _, row in outputs),
                "steered": sum(row["more"] == more and row["steered"] for _, row in outputs),
            }
            for more in budgets
        },
        "faults": [f"{one.case.name}: {row['wrong']}" for one, row in outputs if row["wrong"]][:40],
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """How many there are, and p50, p99 and the largest; {} of none."""
    if not values:
        return {}
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {"count": len(ordered), "p50": at(0.5), "p99": at(0.99), "max": ordered[-1]}
