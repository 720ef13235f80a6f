"""Scheduling info of nodes: everything that the order of waiting requests depends on.

When a thousand nodes of a hundred runs become ready at once, most of the info of a node is that of
its run, or learned at a call site that it shares with others; it is computed once.
"""

from __future__ import annotations

from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.estimates.estimates import SiteEstimates
from agentrt.scheduler.runs.run import NodeState, RunState

_RunInfo = tuple[
    float, float, RunId, str, float, int, float, float, int, float, float, float | None, float
]
"""Info of a run at one instant: the fields of `SchedulingInfo` from the run's start on."""


class InfoUpdates:
    """Info of any number of nodes at one instant; invalid once the state has changed.

    Args:
        now_s: The instant.
    """

    __slots__ = ("_now_s", "_output_tokens", "_run_infos")

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self._run_infos: dict[RunState, _RunInfo] = {}
        self._output_tokens: dict[SiteEstimates, float] = {}

    def info_of(self, node: NodeState, request_id: RequestId | None) -> SchedulingInfo:
        """Scheduling info of a generation.

        Args:
            node: A generation.
            request_id: Number of its request, sent or about to be.
        """
        assert request_id is not None
        run, estimates = node.run, node.estimates
        run_info = self._run_infos.get(run)
        if run_info is None:
            run_info = self._run_infos[run] = _run_info(run, self._now_s)
        length = self._output_tokens.get(estimates)
        if length is None:
            length = self._output_tokens[estimates] = estimates.mean("output_tokens")
        return SchedulingInfo(
            request_id, node.demanded, node.deadline_at_s, node.rank_s, length, *run_info
        )


def _run_info(run: RunState, now_s: float) -> _RunInfo:
    """Info of a run; the service of its session stands in for what the session will yet need."""
    earlier_s = 0.0 if run.session is None else run.earlier_s
    return (
        run.session_started_at_s,
        run.rest_s + earlier_s,
        run.run_id,
        run.tenant,
        run.account.debt_s,
        run.priority,
        run.attained_s + earlier_s,
        run.waited_until(now_s),
        min(1, len(run.waiting)),
        run.path_p50_s,
        run.path_p90_s,
        None if run.true_service_s is None else run.true_rest_s,
        now_s,
    )
