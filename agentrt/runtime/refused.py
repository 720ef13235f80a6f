"""Refusal of a run that cannot be done in time, before it begins."""

from __future__ import annotations

from typing import Any

from agentrt.base.errors import DeadlineExceeded
from agentrt.base.run_progress import NodeProgress, RunProgress
from agentrt.program import Node
from agentrt.protocol.events import Event, Scheduled
from agentrt.runtime.completion import failed
from agentrt.runtime.run import Run
from agentrt.scheduler import Refusal


def refused(run: Run, node: Node[Any], refusal: Refusal) -> list[Event]:
    """Fail the program node of a run, because its deadline leaves less than past runs took.

    The error shows the expected path, each call site with its median time.
    """
    path = tuple(NodeProgress("", site.partition(" ")[0], took_s) for site, took_s in refusal.path)
    error = DeadlineExceeded(
        f"{node.label} has {refusal.left_s:.2g} s, and half of its {refusal.runs} past runs took "
        f"{refusal.expected_s:.2g} s or more, even where nothing waited",
        progress=RunProgress(path),
        hint="Raise the deadline, or set SchedulerConfig(refuse_hopeless=False) to try all the "
        "same; `agentrt runs forget` drops what was learned",
        where=node.site,
    )
    event = Scheduled(
        run.run_id,
        node.id,
        run.now_s(),
        "refused",
        "past runs took longer than its deadline leaves",
        terms=(
            ("left_s", refusal.left_s),
            ("expected_s", refusal.expected_s),
            ("past_runs", float(refusal.runs)),
        ),
    )
    return [event, failed(run, node, error)]
