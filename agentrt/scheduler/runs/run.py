"""What is known of one run; changed by `apply` alone."""

from __future__ import annotations

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import RunStarted
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.runs.fair_share import TenantAccount
from agentrt.scheduler.runs.node import NodeState

LEAST_REST = 0.05
"""A run that had all the service it was expected to need still needs this share of it."""


class RunState:
    """What is known of one run.

    Attributes:
        run_id: The run.
        template: The program that was started, as past runs of it are found.
        started_at_s: When it began.
        deadline_at_s: When all of it must be done, or None.
        tenant: Who pays for it.
        account: What the tenant had.
        priority: Above or below other runs of its tenant.
        estimates: What past runs tell.
        nodes: By id, ended ones too.
        attained_s: Service that it has had.
        true_service_s: All that it will need, where a replay has said so.
        waiting: Its nodes that could run and wait for their engine or the admission gate.
        path_p50_s: Median of the learned time that it still needed at its latest new node.
        path_p90_s: The same time, which nine of ten runs stay within.
        depth: Nodes expected on that path.
        admitted: The admission gate let it in, or there is none.
        held: Its generations that the gate holds.
        working: How many its engines have that could run; counted where engines tell their memory.
        rank_anew_at: When it has so many nodes their ranks are worked out anew.
        footprints: KV that it needs, by role of the engine; only where engines tell their memory.
    """

    __slots__ = (
        "_mark_at_s",
        "_mark_attained_s",
        "_mark_rest_s",
        "_waited_at_s",
        "_waited_s",
        "account",
        "admitted",
        "attained_s",
        "deadline_at_s",
        "depth",
        "estimates",
        "footprints",
        "held",
        "nodes",
        "path_p50_s",
        "path_p90_s",
        "priority",
        "rank_anew_at",
        "run_id",
        "started_at_s",
        "template",
        "tenant",
        "told_rest_s",
        "true_service_s",
        "waiting",
        "working",
    )

    def __init__(self, event: RunStarted, estimates: Estimates, account: TenantAccount) -> None:
        self.run_id: RunId = event.run_id
        self.template = template_of(event.program, event.source)
        self.started_at_s = event.at_s
        self.deadline_at_s = None if event.deadline_s is None else event.at_s + event.deadline_s
        self.tenant = event.tenant
        self.account = account
        self.priority = event.priority
        self.estimates = estimates
        self.nodes: dict[NodeId, NodeState] = {}
        self.attained_s = 0.0
        self.waiting: dict[NodeState, None] = {}
        self.path_p50_s = 0.0
        self.path_p90_s = 0.0
        self.depth = 0.0
        self.admitted = False
        self.held: dict[NodeState, None] = {}
        self.working = 0
        self.footprints: dict[str, Footprint] = {}
        self.told_rest_s = 0.0
        self.rank_anew_at = 0
        self._waited_s = 0.0
        self._waited_at_s = event.at_s
        self.true_service_s = event.true_service_s
        self._mark_at_s = event.at_s
        self._mark_attained_s = 0.0
        self._mark_rest_s = 0.0

    @property
    def rest_s(self) -> float:
        """Learned service that it still needs, all branches; 0.0 when nothing is known."""
        expected_s = self._mark_rest_s
        left_s = expected_s - (self.attained_s - self._mark_attained_s)
        least_s = LEAST_REST * expected_s
        return left_s if left_s > least_s else least_s

    @property
    def true_rest_s(self) -> float | None:
        """What it really needs, where a replay has said so."""
        whole_s = self.true_service_s
        return None if whole_s is None else max(0.0, whole_s - self.attained_s)

    def waited_until(self, now_s: float) -> float:
        """How long its runnable nodes have waited, all added up."""
        since_s = now_s - self._waited_at_s
        return self._waited_s + len(self.waiting) * since_s if since_s > 0.0 else self._waited_s

    def wait(self, node: NodeState, at_s: float) -> None:
        """A node of it can run and waits."""
        waiting = self.waiting
        if node not in waiting:
            if waiting:
                self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            waiting[node] = None

    def wait_no_more(self, node: NodeState, at_s: float) -> None:
        """A node of it has what it waited for, or needs it no more."""
        waiting = self.waiting
        if node in waiting:
            self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            del waiting[node]

    def begin(self, at_s: float) -> None:
        """The admission gate lets it in: what it needs it needs from here on."""
        self.admitted = True
        self._mark_at_s = at_s

    @property
    def ends_at_s(self) -> float | None:
        """By when nine of ten of its like have ended; None when nothing is known."""
        return self._mark_at_s + self.path_p90_s if self.path_p90_s > 0.0 else None

    def mark(self, node: NodeState, at_s: float) -> None:
        """A new node tells how far the run has come: what past runs still needed there.

        The path is the longest of those that are still open: a short new branch does not shorten
        what a long one needed a moment ago.
        """
        place = node.place.known_at(node.depth)
        path = place.of("path_s")
        if path is None:
            return
        passed_s = at_s - self._mark_at_s
        self._mark_at_s = at_s
        p50_s = node.rank_s = path.quantile(0.5)
        self.path_p50_s = max(p50_s, self.path_p50_s - passed_s)
        self.path_p90_s = max(path.quantile(0.9), self.path_p90_s - passed_s)
        self.depth = place.mean("depth")
        self._mark_rest_s = place.mean("rest_s")
        self._mark_attained_s = self.attained_s


class Footprint:
    """The KV that a run needs of one engine.

    Attributes:
        committed_tokens: What the gate set aside for it.
        context_tokens: What it needs now: its generations under way, or the context it went on
            with last, whichever is more.
        longest_tokens: The longest context that one of its generations came to.
        peak_tokens: The most it needed at once.
        running_tokens: Made by its generations under way themselves, as expected.
        shared_tokens: The most that one of those has from others.
        trunk_tokens: Context of its generation that ended last: between two turns of a tool loop
            that is what it comes back to.
        forked: Its generation that ended last was not the only one under way.
        awaited_tokens: Of generations under way that go on from the one before: the context that
            they should find in the cache.
    """

    __slots__ = (
        "awaited_tokens",
        "committed_tokens",
        "context_tokens",
        "forked",
        "longest_tokens",
        "peak_tokens",
        "running_tokens",
        "shared_tokens",
        "trunk_tokens",
    )

    def __init__(self, committed_tokens: float) -> None:
        self.committed_tokens = committed_tokens
        self.context_tokens = 0.0
        self.longest_tokens = 0.0
        self.peak_tokens = 0.0
        self.running_tokens = 0.0
        self.shared_tokens = 0.0
        self.trunk_tokens = 0.0
        self.forked = False
        self.awaited_tokens: dict[NodeState, float] = {}

    def share(self, tokens: float) -> None:
        """One of its generations has so much from others."""
        self.shared_tokens = max(self.shared_tokens, tokens)

    def begin(self, node: NodeState) -> None:
        """A generation is under way; whether it goes on from the one before it tells by itself.

        In a chain each has the context of the one before, and more; of a fork nobody knows.
        """
        alone = self.running_tokens < 1.0
        if alone and not self.forked and node.prompt_tokens >= self.trunk_tokens:
            self.awaited_tokens[node] = self.trunk_tokens
        self.forked = not alone

    def look(self) -> None:
        """Work out what follows from what runs and what waits."""
        if not self.running_tokens:
            self.shared_tokens = 0.0
        self.context_tokens = max(self.running_tokens + self.shared_tokens, self.trunk_tokens)

    def measure(self) -> None:
        """The same, and the peak: what a generation came to is known, and it is about to end."""
        self.look()
        self.peak_tokens = max(self.peak_tokens, self.context_tokens)


def template_of(program: str, source: str) -> str:
    """A program as places spell it: its name, and `file:function`."""
    return f"{program} {source}" if source else program
