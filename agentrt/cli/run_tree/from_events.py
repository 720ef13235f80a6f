"""The tree of runs under way, kept up to date from their events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentrt.analysis.stage import Label
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.pace import pace_text
from agentrt.cli.run_tree.node import RunTree, State, TreeNode, group_of
from agentrt.protocol.events import (
    AttemptFailed,
    Event,
    FirstToken,
    HoleFilled,
    NodeDeclared,
    NodeEvent,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import BackendDown, Ledger, StepDone

_LATEST = 128
_MOST_RUNS = 1024
_WORK: dict[State, Label] = {
    "held": "admission",
    "sent": "network",
    "queue": "queue",
    "prefill": "prefill",
    "decode": "decode",
    "tool": "tool",
    "asks": "tool",
}


class LiveRunTree:
    """The tree of the runs of one command; an observer.

    Args:
        runs: Number of runs; above one, each is a branch below a root of its own.
        labels: Beginning of the names of a run's branch, such as the number of its record.

    Attributes:
        tree: The tree; None before the first run begins.
        runs_done: Number of runs that have ended.
        runs_failed: Number of them that failed.
        run_id: The run that began last; None before.
        began_at_s: Start of the first run; None before.
        ended_at_s: End of the run that ended last; None before.
        step: The engine's last step; None before.
        finished: Nodes that ended since the last `take_finished`.
    """

    def __init__(self, runs: int = 1, labels: Mapping[RunId, str] | None = None) -> None:
        self._runs = runs
        self._labels = labels or {}
        self.tree: RunTree | None = None
        self.runs_done = 0
        self.runs_failed = 0
        self.run_id: RunId | None = None
        self.began_at_s: float | None = None
        self.ended_at_s: float | None = None
        self.step: StepDone | None = None
        self.finished: list[TreeNode] = []
        self._nodes: dict[RunId, dict[NodeId, TreeNode]] = {}
        self._requests: dict[RequestId, TreeNode] = {}
        self._requests_of: dict[str, list[RequestId]] = {}
        self._pending: dict[str, set[str]] = {}
        self._waiting_for: dict[str, list[TreeNode]] = {}
        self._at_work: dict[str, TreeNode] = {}
        self._open: dict[str, TreeNode] = {}
        self._latest: deque[TreeNode] = deque(maxlen=_LATEST)
        self._failed: deque[TreeNode] = deque(maxlen=_LATEST)

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""
        for event in events:
            if isinstance(event, StepDone):
                self._on_step(event)
            elif isinstance(event, RunStarted):
                self.run_id = event.run_id
                self._nodes[event.run_id] = {}
                if self.began_at_s is None:
                    self.began_at_s = event.at_s
            elif isinstance(event, RunFinished):
                self._on_end_of_run(event)
            elif isinstance(event, NodeDeclared):
                self._declare(event)
            elif not isinstance(event, BackendDown):
                node = self._nodes.get(event.run_id, {}).get(event.node_id)
                if node is not None:
                    self._on_node(node, event)

    def pace(self, at_s: float) -> str:
        """How many runs are done at an instant and have failed, their rate, and the time left."""
        spent_s = 0.0 if self.began_at_s is None else at_s - self.began_at_s
        failed = f", {self.runs_failed} failed" if self.runs_failed else ""
        return pace_text(self.runs_done, self._runs, spent_s, "runs done") + failed

    def take_finished(self) -> list[TreeNode]:
        """Nodes that ended since the last call, the programs of runs left out."""
        ended, self.finished = self.finished, []
        return ended

    def by_interest(self) -> Iterator[TreeNode]:
        """Nodes in the order in which they deserve a row: at work, failed, waiting, the latest."""
        yield from self._at_work.values()
        yield from reversed(self._failed)
        yield from self._open.values()
        yield from reversed(self._latest)

    def in_flight(self) -> Iterator[TreeNode]:
        """Generations and tools that are at work, and questions."""
        return iter(self._at_work.values())

    def _declare(self, event: NodeDeclared) -> None:
        of_run = self._nodes.setdefault(event.run_id, {})
        parent = of_run.get(event.parent) if event.parent else None
        label = self._labels.get(event.run_id, "") if parent is None else ""
        node = TreeNode(
            key=f"{event.run_id}/{event.node_id}",
            name=label + event.node_id.rpartition("/")[2],
            kind=event.kind,
            parent=parent,
            started_at_s=event.at_s,
            state="running" if event.kind == "program" else "waiting",
            prompt_tokens=event.prompt_tokens,
        )
        of_run[event.node_id] = node
        self._open[node.key] = node
        self._place(node)
        deps = [of_run.get(one) for one in event.deps if one != event.plan]
        open_deps = {one.key for one in deps if one is not None and not one.has_ended}
        for key in open_deps:
            self._waiting_for.setdefault(key, []).append(node)
        if open_deps:
            self._pending[node.key] = open_deps
        else:
            self._ready(node, event.at_s)

    def _place(self, node: TreeNode) -> None:
        if node.parent is None and self._runs > 1:
            if self.tree is None:
                since_s = node.started_at_s if self.began_at_s is None else self.began_at_s
                root = TreeNode("", "runs", "batch", None, since_s, state="running")
                self.tree = RunTree(root)
            node.parent = self.tree.root
        if node.parent is None:
            self.tree = RunTree(node)
        elif self.tree is not None:
            self.tree.add(node)

    def _ready(self, node: TreeNode, at_s: float) -> None:
        """Note that a node has all of its inputs."""
        if node.state != "waiting":
            return
        node.started_at_s = at_s
        if node.kind == "tool":
            self._go(node, "queue", at_s)
        elif node.kind == "ask":
            self._go(node, "asks", at_s)

    def _go(self, node: TreeNode, state: State, at_s: float) -> None:
        """Change what a node does."""
        node.begin(_WORK.get(state), at_s)
        if self.tree is not None:
            self.tree.change(node, state)
        if group_of(state) == "running":
            self._at_work[node.key] = node
        else:
            self._at_work.pop(node.key, None)

    def _on_step(self, event: StepDone) -> None:
        if event.step is not None:
            self.step = event
            for request_id in event.step.requests:
                node = self._requests.get(request_id)
                if node is not None and node.state == "queue":
                    self._go(node, "prefill", max(event.step.started_at_s, node.since_s))
        for delta in event.deltas:
            node = self._requests.get(delta.request_id)
            if node is not None:
                node.tokens += len(delta.token_ids)

    def _on_node(self, node: TreeNode, event: NodeEvent) -> None:
        match event:
            case RequestSent():
                self._on_sent(node, event)
            case Scheduled(decision="held") if node.state == "waiting":
                self._go(node, "held", event.at_s)
            case HoleFilled() if node.state == "waiting":
                self._on_inputs(node, event.at_s)
            case FirstToken():
                node.first_token_at_s = event.at_s
                self._go(node, "decode", event.at_s)
            case AttemptFailed():
                node.cost_pico += event.ledger.cost_pico
                node.tokens = 0
                node.first_token_at_s = None
                self._go(node, "waiting", event.at_s)
            case ToolStarted():
                self._pending.pop(node.key, None)
                self._go(node, "tool", event.at_s)
            case ToolEnded():
                node.begin("orchestration", event.at_s)
            case NodeFinished():
                self._on_end(node, event)
            case _:
                pass

    def _on_sent(self, node: TreeNode, event: RequestSent) -> None:
        self._requests[event.request_id] = node
        self._requests_of.setdefault(node.key, []).append(event.request_id)
        node.prompt_tokens = event.prompt_tokens or node.prompt_tokens
        if event.complete:
            self._pending.pop(node.key, None)
            self._go(node, "sent" if event.backend == "remote" else "queue", event.at_s)

    def _on_inputs(self, node: TreeNode, at_s: float) -> None:
        """Note the last input of a node that had waited for it."""
        self._pending.pop(node.key, None)
        self._ready(node, at_s)
        if node.key in self._requests_of:
            self._go(node, "queue", at_s)

    def _on_end(self, node: TreeNode, event: NodeFinished) -> None:
        self._go(node, event.outcome, event.at_s)
        node.ended_at_s = event.at_s
        node.why = event.error.type if event.error is not None else event.reason
        if event.ledger is not None:
            self._account(node, event.ledger)
        if self.tree is not None:
            self.tree.account(node)
        for request_id in self._requests_of.pop(node.key, ()):
            self._requests.pop(request_id, None)
        self._open.pop(node.key, None)
        self._pending.pop(node.key, None)
        (self._failed if event.outcome == "failed" else self._latest).append(node)
        if node.parent is not None and node.parent.kind != "batch":
            self.finished.append(node)
        for other in self._waiting_for.pop(node.key, ()):
            pending = self._pending.get(other.key)
            if pending is not None:
                pending.discard(node.key)
                if not pending:
                    self._on_inputs(other, event.at_s)

    def _account(self, node: TreeNode, ledger: Ledger) -> None:
        node.take(ledger)
        if self.tree is not None:
            self.tree.currency = self.tree.currency or ledger.currency

    def _on_end_of_run(self, event: RunFinished) -> None:
        self.runs_done += 1
        self.ended_at_s = event.at_s
        self.runs_failed += event.outcome == "failed"
        nodes = self._nodes.pop(event.run_id, {})
        for node in nodes.values():  # whatever has not told its end
            self._open.pop(node.key, None)
            self._at_work.pop(node.key, None)
        if self._runs > 1 and nodes:
            self._forget_below(next(iter(nodes.values())), nodes.values())
        if self._runs > 1 and self.runs_done == self._runs:
            self.end_of_all("failed" if self.runs_failed else "ok", event.at_s)

    def end_of_all(self, state: State, at_s: float) -> None:
        """End the root of several runs, unless it has ended."""
        if self.tree is not None and not self.tree.root.has_ended:
            self.tree.change(self.tree.root, state)
            self.tree.root.ended_at_s = at_s

    def _forget_below(self, program: TreeNode, nodes: Iterable[TreeNode]) -> None:
        """Forget the nodes of a run of many that has ended; they stay in the counts."""
        program.children = []
        gone = {node.key for node in nodes} - {program.key}
        for ended in (self._latest, self._failed):
            kept = [node for node in ended if node.key not in gone]
            ended.clear()
            ended.extend(kept)
        self._leave_out_old(program.parent)

    def _leave_out_old(self, root: TreeNode | None) -> None:
        """Forget runs that ended long ago; they stay in the counts."""
        if root is not None and len(root.children) > _MOST_RUNS:
            ended = [one for one in root.children if one.has_ended]
            old = {one.key for one in ended[: len(ended) - _LATEST]}
            root.children = [one for one in root.children if one.key not in old]
