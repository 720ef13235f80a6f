"""The cases of a prediction in a file, which grows part by part, and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentrt.analysis.html_page import page, paragraphs, table_of
from agentrt.lab.equal_facts import check_equal
from agentrt.lab.result_file import header, short_paths
from agentrt.lab.sim.flags import PREDICTION_FILE
from agentrt.lab.sim.machine_state import StateFactors
from agentrt.lab.sim.prediction import (
    LEAST_CASES,
    MOST_APART,
    MOST_ERROR,
    SHARES,
    PredictedCase,
    verdicts,
)

_ARRAYS = ("predicted_s", "naive_s", "in_sample_s")


@dataclass(slots=True)
class PredictionFile:
    """Cases that were predicted and played, in one or more parts.

    Attributes:
        identity: Facts that are the same in all parts: machine, code, calibration, programs.
        cases: The cases by name.
    """

    identity: Mapping[str, Any]
    cases: dict[str, PredictedCase] = field(default_factory=dict)

    def left(self, names: Iterable[str]) -> list[str]:
        """Names of the cases that have not been played."""
        return [name for name in names if name not in self.cases]

    def to_json(self) -> dict[str, Any]:
        """The content of the file, with every latency."""
        cases = list(self.cases.values())
        return {
            **header(PREDICTION_FILE.schema),
            "identity": short_paths(self.identity),
            "targets": {"most_error": MOST_ERROR, "least_cases": LEAST_CASES, "apart": MOST_APART},
            "within": {name: sum(one.is_within(name) for one in cases) for name in SHARES},
            "cases": [_case_json(one) for one in cases],
        }


def read_prediction(path: Path, identity: Mapping[str, Any]) -> PredictionFile:
    """The cases that a file holds.

    Args:
        path: A file that `agentrt sim predict` wrote.
        identity: Facts that have to be the same as in its earlier parts.

    Raises:
        UsageError: The file cannot be read, or was measured with something else.
    """

    def cases_of(found: Mapping[str, Any]) -> list[PredictedCase]:
        check_equal(found["identity"], short_paths(identity), path.name)
        return [_case_from(one) for one in found["cases"]]

    cases = PREDICTION_FILE.read(path, cases_of)
    return PredictionFile(identity, {one.name: one for one in cases})


def prediction_page(found: PredictionFile) -> str:
    """The page of the cases."""
    cases = list(found.cases.values())
    columns: dict[str, Callable[[PredictedCase], str]] = {
        "case": lambda one: one.name,
        "programs a second": lambda one: f"{one.rate:.3g}",
        "steps at, runtime at": lambda one: f"{one.state.compute:.2f}, {one.state.runtime:.2f}",
        "attempts": lambda one: f"{len(one.attempts)}",
    }
    for name, share in SHARES.items():
        columns |= _columns(name, share)
    parts = [paragraphs(*verdicts(cases)), table_of(cases, columns)] if cases else []
    return page("The simulator's predictions against the engine", parts)


def _columns(name: str, share: float) -> dict[str, Callable[[PredictedCase], str]]:
    return {
        f"{name} measured, s": lambda one: f"{one.measured(share):.3f}",
        f"{name} of plays": lambda one: "{:.3f} to {:.3f}".format(*one.plays(share)),
        f"{name} predicted, s": lambda one: f"{one.predicted(share):.3f}",
        f"{name} error": lambda one: f"{one.error(share):+.1%}",
        f"{name} in sample": lambda one: f"{one.in_sample_error(share):+.1%}",
        f"{name} work by rate": lambda one: f"{one.naive_error(share):+.0%}",
        f"{name} halves": lambda one: f"{one.apart(share):.1%}",
        f"{name} within": lambda one: "yes" if one.is_within(name) else "no",
    }


def _case_json(case: PredictedCase) -> dict[str, Any]:
    def by_share(figure: Callable[[float], Any]) -> dict[str, Any]:
        return {name: figure(share) for name, share in SHARES.items()}

    return {
        "name": case.name,
        "policy": case.policy,
        "rate": case.rate,
        "state": asdict(case.state),
        "took_s": case.took_s,
        "measured": by_share(case.measured),
        "plays": by_share(case.plays),
        "predicted": by_share(case.predicted),
        "error": by_share(case.error),
        "in_sample_error": by_share(case.in_sample_error),
        "naive_error": by_share(case.naive_error),
        "halves_apart": by_share(case.apart),
        "within": {name: case.is_within(name) for name in SHARES},
        **{name: getattr(case, name).tolist() for name in _ARRAYS},
        "attempts_s": [attempt.tolist() for attempt in case.attempts],
    }


def _case_from(found: Mapping[str, Any]) -> PredictedCase:
    attempts: Sequence[Any] = found["attempts_s"]
    return PredictedCase(
        found["name"],
        found["policy"],
        found["rate"],
        StateFactors(**found["state"]),
        np.array(found["predicted_s"]),
        np.array(found["naive_s"]),
        [np.array(one) for one in attempts],
        np.array(found["in_sample_s"]),
        found["took_s"],
    )
