"""The best plan of a server, found by playing a probe on each in turn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import field
from statistics import median
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanSearch
from agentrt.lab.arms.program_arm import client_arm, play
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log


@record
class TriedPlan:
    """A plan that was tried.

    Attributes:
        variant: Variant of the plan.
        took_s: Seconds of each round of the probe.
        failed: Why a server did not work in this way; "" if it did.
    """

    variant: str
    took_s: Sequence[float] = field(default_factory=tuple)
    failed: str = ""


def open_best(
    search: PlanSearch,
    programs: Sequence[ProgramLine],
    files: PeerFiles,
    *,
    repeats: int = 3,
) -> tuple[ServerProcess, list[TriedPlan]]:
    """Start every plan, play a probe on each in turn, and keep the quickest, halted.

    Then each group of changes is tried on it in the same way, beside itself. A first round does not
    count: it warms all of them alike. A change with which the server does not work is left out.

    Args:
        search: Plans of one kind of server.
        programs: The probe.
        files: Files of the peers.
        repeats: Rounds that count.

    Returns:
        The server, and all that was tried, in that order; nothing if there was no choice.

    Raises:
        BenchFailed: A server does not work without any change.
    """
    with ExitStack() as stack:
        trial = _Trial(programs, files, repeats, stack)
        plan = trial.best_of(search.plans)
        for group in search.changes:
            changed = [change.on(plan) for change in group]
            plan = trial.best_of([plan, *changed], may_fail=True)
        server = trial.keep(plan)
        stack.pop_all()
        return server, trial.tried


def started_by(plan: ServerPlan) -> tuple[str, ...]:
    """Equal for plans of one server that differ in the client alone."""
    return (*plan.command, *(f"{name}={value}" for name, value in sorted(plan.env.items())))


class _Trial:
    """Servers that are tried.

    Attributes:
        tried: All plans that were tried so far.
    """

    def __init__(
        self, programs: Sequence[ProgramLine], files: PeerFiles, repeats: int, stack: ExitStack
    ) -> None:
        self._programs, self._files, self._repeats = programs, files, repeats
        self._servers: dict[tuple[str, ...], ServerProcess] = {}
        self._stack = stack
        self.tried: list[TriedPlan] = []

    def best_of(self, plans: Sequence[ServerPlan], *, may_fail: bool = False) -> ServerPlan:
        """The quickest of some plans, whose server alone is kept.

        Args:
            plans: The plans.
            may_fail: True if all but the first may fail.
        """
        if len(plans) == 1:
            self._server(plans[0])
            return plans[0]
        took_s: dict[str, list[float]] = {}
        with ExitStack() as clients:
            opened: dict[str, ArmProcess] = {}
            for number in range(self._repeats + 1):
                for plan in plans:
                    if number and plan.variant not in opened:
                        continue  # it has failed
                    try:
                        if not number:
                            opened[plan.variant] = self._client(plan, clients)
                        samples = play(opened[plan.variant], self._programs).samples
                    except BenchFailed as error:
                        if not may_fail or plan is plans[0]:
                            raise
                        log(f"{plan.name} does not work: {error}")
                        self.tried.append(TriedPlan(plan.variant, failed=str(error)))
                        opened.pop(plan.variant, None)
                        took_s.pop(plan.variant, None)
                        continue
                    lasted_s = sum(one["ended_s"] - one["arrived_s"] for one in samples)
                    if number:
                        took_s.setdefault(plan.variant, []).append(lasted_s)
        self.tried += [TriedPlan(variant, tuple(each)) for variant, each in took_s.items()]
        best = min(
            (plan for plan in plans if plan.variant in took_s),
            key=lambda plan: median(took_s[plan.variant]),
        )
        log(f"{best.name} is the best of {len(plans)}")
        self.keep(best)
        return best

    def keep(self, plan: ServerPlan) -> ServerProcess:
        """Close all servers but that of a plan, which has this plan from now on."""
        kept = self._server(plan)
        kept.plan = plan
        for server in self._servers.values():
            if server is not kept:
                server.close()
        self._servers = {started_by(plan): kept}
        return kept

    def _client(self, plan: ServerPlan, clients: ExitStack) -> ArmProcess:
        arm = client_arm("asyncio", plan, self._files)
        client = ArmProcess(arm, server=self._server(plan))
        clients.callback(client.close)
        return client

    def _server(self, plan: ServerPlan) -> ServerProcess:
        """The server of a plan, started and halted if it was not."""
        found = self._servers.get(started_by(plan))
        if found is None:
            log(f"starting {plan.name}")
            found = self._servers[started_by(plan)] = ServerProcess(plan)
            self._stack.callback(found.close)
            found.halt()
        return found


def tried_plans(tried: Sequence[TriedPlan]) -> list[dict[str, Any]]:
    """Tried plans as the result file has them."""
    return [
        {"variant": one.variant, "took_s": list(one.took_s)}
        | ({"failed": one.failed} if one.failed else {})
        for one in tried
    ]
