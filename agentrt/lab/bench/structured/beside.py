"""Times of our masks beside those of llguidance alone, in one process and in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrt.lab.bench.structured.cases import ConstraintCase
from agentrt.lab.bench.structured.libraries import LibraryArm
from agentrt.lab.progress import WorkPace
from agentrt.structured.vocabulary import Alphabet

ROUNDS = 5
KINDS = ("json", "pattern")


def masks_beside(
    arm: LibraryArm, cases: Sequence[ConstraintCase], alphabet: Alphabet
) -> dict[str, Any]:
    """Times of each mask along the valid texts of schemas that both compile.

    Args:
        arm: Our library.
        cases: The cases.
        alphabet: Alphabet of the vocabulary.

    Returns:
        Microseconds of CPU time: `first` of the first walk of each text, `again` of the quickest of
        all walks, each with `ours`, `alone` and the ratios of their percentiles.
    """
    schemas = [case for case in cases if case.kind in KINDS]
    times: dict[str, dict[str, list[float]]] = {
        when: {"ours": [], "alone": []} for when in ("first", "again")
    }
    pace = WorkPace("cases", len(schemas))
    for case in schemas:
        texts = [alphabet.tokenize(one.text.encode()) for one in case.texts if one.valid]
        answer = arm.ask("masks", kind=case.kind, source=case.source, texts=texts, rounds=ROUNDS)
        for walk in answer.get("walks", ()):
            for who, rounds_ns in walk.items():
                times["first"][who] += [ns / 1e3 for ns in rounds_ns[0]]
                times["again"][who] += [min(each) / 1e3 for each in zip(*rounds_ns, strict=True)]
        pace.done()
    return {when: _compared(found) for when, found in times.items()}


def lines_of(vocabulary: str, found: Mapping[str, Any]) -> list[str]:
    """The figures as lines for the terminal."""
    return [
        f"{vocabulary}, {when} walks, {row['ours']['count']:.0f} masks, us of CPU: "
        + ", ".join(
            f"{at} {row['ours'][at]:.2f} beside {row['alone'][at]:.2f} ({row['ratio'][at]:.2f})"
            for at in ("p50", "p90", "p99")
        )
        for when, row in found.items()
        if row["ratio"]
    ]


def _compared(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    found: dict[str, Any] = {who: _percentiles(values) for who, values in times.items()}
    ours, alone = found["ours"], found["alone"]
    return {**found, "ratio": {at: ours[at] / alone[at] for at in ours if at != "count"}}


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    """Count and percentiles; {} without values."""
    if not values:
        return {}
    at = [float(one) for one in np.percentile(values, [50, 90, 99])]
    return {"count": len(values), "p50": at[0], "p90": at[1], "p99": at[2]}
