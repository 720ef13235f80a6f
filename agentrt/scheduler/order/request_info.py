"""What engines are told of nodes: all that the order of waiting work depends on, as of one instant.

When a thousand nodes of a hundred runs become ready at once, most of what is told of each is so of
its whole run, or learned at a call site that it shares with others: that is worked out once.
"""

from __future__ import annotations

from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.estimates.estimates import SiteEstimates
from agentrt.scheduler.runs.run import NodeState, RunState

_OfRun = tuple[
    float, float, RunId, str, float, int, float, float, int, float, float, float | None, float
]
"""Of a run at one instant: the last of `SchedulingInfo`, from the run's start on."""


class InfoUpdates:
    """Facts of any number of nodes at one instant; of no use once the state has changed.

    Args:
        now_s: The instant.
    """

    __slots__ = ("_lengths", "_now_s", "_runs")

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self._runs: dict[RunState, _OfRun] = {}
        self._lengths: dict[SiteEstimates, float] = {}

    def info(self, node: NodeState, request_id: RequestId | None) -> SchedulingInfo:
        """What its engine needs for the order of waiting work.

        Args:
            node: A generation.
            request_id: Of its request, sent or about to be.
        """
        assert request_id is not None
        run, place = node.run, node.place
        of_run = self._runs.get(run)
        if of_run is None:
            of_run = self._runs[run] = _of_run(run, self._now_s)
        length = self._lengths.get(place)
        if length is None:
            length = self._lengths[place] = place.mean("output_tokens")
        return SchedulingInfo(
            request_id, node.demanded, node.deadline_at_s, node.rank_s, length, *of_run
        )


def _of_run(run: RunState, now_s: float) -> _OfRun:
    return (
        run.started_at_s,
        run.rest_s,
        run.run_id,
        run.tenant,
        run.account.debt_s,
        run.priority,
        run.attained_s,
        run.waited_until(now_s),
        len(run.waiting),
        run.path_p50_s,
        run.path_p90_s,
        run.true_rest_s,
        now_s,
    )
