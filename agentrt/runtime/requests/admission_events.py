"""Admission events: when an engine admitted a generation into a step, and why not before."""

from __future__ import annotations

from collections import deque

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import Scheduled
from agentrt.protocol.step_output import PASSED_OVER, Admission, rounds_in_words

_REMEMBERED = 64
_MOST_NAMED = 5
_MAIN_TERM = {
    "fcfs": "run_started_at_s",
    "lpm": "cached_tokens",
    "plas": "aged_s",
    "rwa": "aged_s",
    "oracle": "aged_s",
    "clairvoyant": "true_rest_s",
}
"""The term that explains most about the order, by policy."""


class AdmissionEvents:
    """Turns admissions into events; later events name the requests that were admitted before."""

    def __init__(self) -> None:
        self._latest: deque[tuple[Admission, RunId, NodeId]] = deque(maxlen=_REMEMBERED)

    def placed(self, run_id: RunId, node_id: NodeId, admission: Admission) -> Scheduled:
        """The event of an admission."""
        terms: list[tuple[str, float]] = [
            ("queued_s", admission.waited_s),
            ("place", float(admission.position)),
            ("others_waiting", float(admission.waiting)),
        ]
        reason = "at once"
        if admission.passed_over:
            terms += [
                (f"passed_over_{cause}", float(steps)) for cause, steps in admission.passed_over
            ]
            reason = self._reason(run_id, admission)
        terms += admission.terms
        self._latest.append((admission, run_id, node_id))
        if admission.worker:
            reason = f"to {admission.worker}, {reason}"
        return Scheduled(
            run_id,
            node_id,
            admission.at_s,
            "placed",
            reason,
            admission.policy,
            tuple(terms),
            admission.worker,
        )

    def _reason(self, run_id: RunId, admission: Admission) -> str:
        """Reasons for the wait, and the requests that were admitted in the meantime."""
        causes = [
            f"{PASSED_OVER.get(cause, cause)} in {rounds_in_words(cause, steps)}"
            for cause, steps in admission.passed_over
        ]
        since_s = admission.at_s - admission.waited_s
        before: list[str] = []
        count = 0
        for other, other_run, node_id in reversed(self._latest):
            if other.at_s < since_s:
                break
            count += 1
            if count <= _MOST_NAMED:
                name = node_id if other_run == run_id else f"{node_id} of run {other_run}"
                before.append(_named(other, name))
        before.reverse()
        if count > _MOST_NAMED:
            before.append(f"{count - _MOST_NAMED} more")
        others = f"; before it: {', '.join(before)}" if before else ""
        return ", ".join(causes) + others


def _named(admission: Admission, name: str) -> str:
    main = _MAIN_TERM.get(admission.policy, "")
    value = next((value for term, value in admission.terms if term == main), None)
    return name if value is None else f"{name} ({main} {value:.4g})"
