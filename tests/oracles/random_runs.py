"""Runs that never were: random programs, played on paper, told as the events a runtime would give.

For tests of what is computed from events (critical path, split, spans). The player knows nothing of
those computations: it lets time pass statement by statement, so it serves as their oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    Event,
    FirstToken,
    HoleFilled,
    ItemClosed,
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    Outcome,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import Ledger, StepDone, StepRecord
from tests.oracles.statements import (
    CallStatement,
    Race,
    Statement,
    ThinkStatement,
    WaitStatement,
    Work,
)

STOPPING_S = 0.002


@dataclass(slots=True)
class _Node:
    node_id: NodeId
    item_at_s: tuple[float, ...] = ()
    done_at_s: float = 0.0


@dataclass(slots=True)
class _Player:
    run_id: RunId
    tell_after: bool
    nodes: list[_Node] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    requests: int = 0

    def program(
        self, name: str, body: tuple[Statement, ...], parent: NodeId | None, at_s: float
    ) -> _Node:
        """Play a program's code from `at_s`; its scope waits for all it declared."""
        made = _Node(NodeId(f"{parent}/{name}" if parent else name))
        after: tuple[NodeId | None, int | None] = (None, None)
        self._declare(made.node_id, "program", name, parent, at_s, after)
        owned: list[_Node] = []
        for statement in body:
            match statement:
                case ThinkStatement(seconds):
                    at_s += seconds
                case WaitStatement(index, item):
                    awaited = self.nodes[index]
                    self.told.append(NodeDemanded(self.run_id, awaited.node_id, at_s))
                    known_s = awaited.done_at_s if item is None else awaited.item_at_s[item]
                    if known_s > at_s:
                        at_s, after = known_s, (awaited.node_id, item)
                case Work():
                    owned.append(self._work(statement, made.node_id, at_s, after))
                case Race(works):
                    raced = self._race(works, made.node_id, at_s, after)
                    first = min(raced, key=lambda node: node.done_at_s)
                    if first.done_at_s > at_s:
                        at_s, after = first.done_at_s, (first.node_id, None)
                    for loser in raced:
                        self._stop(loser, at_s, after)
                    last = max(raced, key=lambda node: node.done_at_s)
                    if last.done_at_s > at_s:
                        at_s, after = last.done_at_s, (last.node_id, None)
                    owned += raced
                case CallStatement(inner):
                    place = len(self.told)
                    sub = self.program(f"sub{len(self.nodes)}", inner, made.node_id, at_s)
                    declared = self.told[place]
                    assert isinstance(declared, NodeDeclared)
                    self.told[place] = self._with_after(declared, after)
                    self.nodes.append(sub)
                    owned.append(sub)
        for child in owned:
            if child.done_at_s > at_s:
                at_s, after = child.done_at_s, (child.node_id, None)
        made.done_at_s = at_s
        finished = NodeFinished(self.run_id, made.node_id, "ok", at_s)
        if self.tell_after:
            finished = replace(finished, after=after[0], after_item=after[1])
        self.told.append(finished)
        return made

    def _race(
        self,
        works: tuple[Work, ...],
        parent: NodeId,
        at_s: float,
        after: tuple[NodeId | None, int | None],
    ) -> list[_Node]:
        raced = [self._work(work, parent, at_s, after) for work in works]
        self.told += [NodeDemanded(self.run_id, node.node_id, at_s) for node in raced]
        return raced

    def _stop(self, node: _Node, at_s: float, after: tuple[NodeId | None, int | None]) -> None:
        """End a node soon after `at_s`, unless it is over by then; the rest never happens."""
        if node.done_at_s <= at_s + STOPPING_S:
            return
        node.done_at_s = at_s + STOPPING_S
        self.told = [
            event
            for event in self.told
            if getattr(event, "node_id", None) != node.node_id or _at_s(event) <= at_s
        ]
        finished = NodeFinished(
            self.run_id, node.node_id, "cancelled", node.done_at_s, stopped_at_s=at_s
        )
        if self.tell_after:
            finished = replace(finished, after=after[0], after_item=after[1])
        self.told.append(finished)

    def _declare(
        self,
        node_id: NodeId,
        kind: str,
        name: str,
        parent: NodeId | None,
        at_s: float,
        after: tuple[NodeId | None, int | None],
        deps: tuple[NodeId, ...] = (),
        plan: tuple[NodeId, int] | None = None,
    ) -> None:
        declared = NodeDeclared(
            self.run_id,
            node_id,
            kind,  # type: ignore[arg-type]
            name,
            parent,
            deps,
            "made_up.py:1",
            at_s,
            plan=plan[0] if plan else None,
            plan_item=plan[1] if plan else 0,
        )
        self.told.append(self._with_after(declared, after))

    def _with_after(
        self, declared: NodeDeclared, after: tuple[NodeId | None, int | None]
    ) -> NodeDeclared:
        if not self.tell_after:
            return declared
        return replace(declared, after=after[0], after_item=after[1])

    def _work(
        self,
        work: Work,
        parent: NodeId,
        at_s: float,
        after: tuple[NodeId | None, int | None],
    ) -> _Node:
        made = _Node(NodeId(f"{parent}/{work.kind}{len(self.nodes)}"))
        deps = tuple(self.nodes[index].node_id for index in work.deps)
        plan = (self.nodes[work.plan[0]].node_id, work.plan[1]) if work.plan else None
        self._declare(made.node_id, work.kind, work.kind, parent, at_s, after, deps, plan)
        ready_s = max([at_s, *(self.nodes[index].done_at_s for index in work.deps)])
        if work.kind == "tool":
            self._tool(made, work, ready_s)
        else:
            self._generation(made, work, at_s, ready_s)
        self.nodes.append(made)
        return made

    def _tool(self, made: _Node, work: Work, ready_s: float) -> None:
        began_s = ready_s + work.before_s + work.queue_s
        ended_s = began_s + work.decode_s
        made.done_at_s = ended_s + work.after_s
        self.told += [
            ToolStarted(self.run_id, made.node_id, 1, began_s),
            ToolEnded(self.run_id, made.node_id, 1, ended_s),
            NodeFinished(self.run_id, made.node_id, "ok", made.done_at_s),
        ]

    def _generation(self, made: _Node, work: Work, at_s: float, ready_s: float) -> None:
        self.requests += 1
        request_id = RequestId(self.requests)
        sent_s = at_s + work.before_s
        complete_s = max(sent_s, ready_s + work.before_s)
        early_s = min(work.early_s, complete_s - sent_s)
        admitted_s = complete_s + work.queue_s
        first_s = admitted_s + work.prefill_s
        ended_s = first_s + work.decode_s
        made.done_at_s = ended_s + work.after_s
        made.item_at_s = tuple(
            first_s + work.decode_s * (index + 1) / work.items for index in range(work.items)
        )
        ledger = Ledger(
            received_at_s=sent_s,
            completed_at_s=complete_s,
            admitted_at_s=sent_s if early_s else admitted_s,
            first_token_at_s=first_s,
            finished_at_s=ended_s,
            queue_s=work.queue_s,
            prefill_s=early_s + work.prefill_s,
            decode_s=work.decode_s,
            prompt_tokens=100,
            cached_tokens=60,
            output_tokens=20,
            forced_tokens=5,
            steps=20,
            batch_size_sum=40,
            ahead_tokens=40 if early_s else 0,
        )
        holes = ready_s > at_s
        node_id = made.node_id
        self.told.append(
            RequestSent(self.run_id, node_id, request_id, "embedded", "tiny", not holes, sent_s)
        )
        if holes:
            self.told.append(HoleFilled(self.run_id, node_id, ready_s))
        step = StepRecord(self.requests, admitted_s, first_s, 40, 0, (request_id,))
        self.told += [StepDone(step, (), ()), FirstToken(self.run_id, node_id, first_s)]
        self.told += [
            ItemClosed(self.run_id, node_id, index, item_s)
            for index, item_s in enumerate(made.item_at_s)
        ]
        self.told.append(
            NodeFinished(
                self.run_id, node_id, "ok", made.done_at_s, ledger=ledger, finish_reason="stop"
            )
        )


def play(
    body: tuple[Statement, ...],
    *,
    run_id: str = "00000000000000a1",
    start_s: float = 100.0,
    gate_s: float = 0.0,
    tell_after: bool = True,
    outcome: Outcome = "ok",
) -> list[Event]:
    """The events of a run whose program has this body, in causal order.

    Args:
        body: What the program's code does.
        run_id: Of the run.
        start_s: The caller's submit.
        gate_s: From the submit until the program begins.
        tell_after: Whether the events say what code waited for.
        outcome: How it ended.
    """
    player = _Player(RunId(run_id), tell_after)
    root = player.program("root", body, None, start_s + gate_s)
    indexed = sorted(enumerate(player.told), key=lambda pair: (_at_s(pair[1]), pair[0]))
    started = RunStarted(
        RunId(run_id), "root", "made_up.py:root", start_s, 1_700_000_000_000_000_000
    )
    ended = RunFinished(RunId(run_id), outcome, root.done_at_s)
    return [started, *(event for _, event in indexed), ended]


def _at_s(event: Event) -> float:
    if isinstance(event, StepDone):
        return event.step.ended_at_s if event.step else 0.0
    return getattr(event, "at_s", 0.0)
