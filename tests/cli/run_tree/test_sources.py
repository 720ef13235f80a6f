"""The same tree from the events of a run under way, from its record and from its trace file."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.cli.run_tree.from_events import LiveRunTree
from agentrt.cli.run_tree.from_record import tree_of_record
from agentrt.cli.run_tree.from_trace import tree_of_trace
from agentrt.cli.run_tree.node import GROUPS, RunTree, TreeNode, group_of
from agentrt.protocol.events import (
    AttemptFailed,
    Event,
    FirstToken,
    HoleFilled,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import Delta, Ledger, StepDone, StepRecord
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.reading import read
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play

RUN, OTHER = RunId("00000000000000a1"), RunId("00000000000000b2")
ROOT, PLAN, LOOK = NodeId("job#0"), NodeId("job#0/plan#0"), NodeId("job#0/look#0")


def nodes_of(tree: RunTree | None) -> list[TreeNode]:
    """All nodes, each child after its parent."""
    assert tree is not None
    nodes, at = [tree.root], 0
    while at < len(nodes):
        nodes += nodes[at].children
        at += 1
    return nodes


def outline(tree: RunTree | None) -> list[tuple[str, str, str, int, int]]:
    return [
        (one.name, one.parent.name if one.parent else "", one.state, one.tokens, one.prompt_tokens)
        for one in nodes_of(tree)
    ]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_three_sources_give_one_tree(rng: Random) -> None:
    events = play(random_body(rng), start_s=3.0)
    live, record = LiveRunTree(), RunRecord()
    live.on_events(events)
    record.on_events(events)
    recorded, traced = tree_of_record(record), tree_of_trace(build(record))
    assert outline(live.tree) == outline(recorded) == outline(traced)
    assert live.tree is not None
    assert recorded is not None
    assert live.tree.root.counts == recorded.root.counts == traced.root.counts
    for of_record, of_trace in zip(nodes_of(recorded), nodes_of(traced), strict=True):
        if of_record.kind != "program":
            assert of_record.critical == of_trace.critical, of_record.key
        assert of_trace.ended_at_s == pytest.approx((of_record.ended_at_s or 0.0) - 3.0, abs=1e-4)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_counts_hold_at_every_instant(rng: Random) -> None:
    live = LiveRunTree()
    for event in play(random_body(rng), start_s=3.0):
        live.on_events([event])
        if live.tree is None:
            continue
        seen = dict.fromkeys(GROUPS, 0)
        for node in nodes_of(live.tree):
            seen[group_of(node.state)] += 1
        assert seen == live.tree.root.counts.nodes


def test_a_trace_file_gives_the_tree_of_its_run(tmp_path: Path) -> None:
    record = RunRecord()
    record.on_events(play(random_body(Random(3))))
    path = JaegerFile(tmp_path).export([build(record)])
    assert outline(tree_of_trace(read(path)[0])) == outline(tree_of_record(record))


def begun(*events: Event, runs: int = 1) -> LiveRunTree:
    live = LiveRunTree(runs, {RUN: "7: "} if runs > 1 else None)
    live.on_events(
        [
            RunStarted(RUN, "job", "job.py:job", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "job", None, (), "job.py:1", 0.0),
            *events,
        ]
    )
    return live


def states(live: LiveRunTree, name: str, *events: Event) -> list[str]:
    """States of a node after each event."""
    found: list[str] = []
    for event in events:
        live.on_events([event])
        found += [one.state for one in nodes_of(live.tree) if one.name == name]
    return found


def step_of(request: int, at_s: float, *ids: int) -> StepDone:
    step = StepRecord(0, at_s, at_s + 0.1, 4, 0, (RequestId(request),))
    return StepDone(step, (Delta(RequestId(request), ids, ""),) if ids else (), ())


def test_the_states_of_a_generation() -> None:
    live = begun()
    declared = NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "job.py:2", 0.1)
    assert states(
        live,
        "plan#0",
        declared,
        Scheduled(RUN, PLAN, 0.2, "held", "too many"),
        RequestSent(RUN, PLAN, RequestId(1), "embedded", "m", True, 0.4, prompt_tokens=9),
        step_of(1, 0.5),
        FirstToken(RUN, PLAN, 0.6),
        step_of(1, 0.7, 4, 5),
        NodeFinished(RUN, PLAN, "ok", 1.0, ledger=Ledger(output_tokens=2, prompt_tokens=9)),
    ) == ["waiting", "held", "queue", "prefill", "decode", "decode", "ok"]
    (plan,) = (one for one in nodes_of(live.tree) if one.key.endswith("plan#0"))
    assert [(one.label, one.started_at_s, one.ended_at_s) for one in plan.stages] == [
        ("admission", 0.2, 0.4),
        ("queue", 0.4, 0.5),
        ("prefill", 0.5, 0.6),
        ("decode", 0.6, 1.0),
    ]
    assert (plan.tokens, plan.prompt_tokens) == (2, 9)
    assert live.take_finished() == [plan]
    assert live.take_finished() == []


def test_a_generation_with_a_hole_waits_until_it_is_filled() -> None:
    live = begun(
        NodeDeclared(RUN, LOOK, "tool", "look", ROOT, (), "job.py:2", 0.0),
        NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (LOOK,), "job.py:3", 0.0),
    )
    sent = RequestSent(RUN, PLAN, RequestId(1), "embedded", "m", False, 0.0)
    found = states(
        live,
        "plan#0",
        sent,
        step_of(1, 0.1),  # of what stands before the hole
        NodeFinished(RUN, LOOK, "ok", 0.5),
        HoleFilled(RUN, PLAN, 0.5),
        step_of(1, 0.6),
    )
    assert found == ["waiting", "waiting", "queue", "queue", "prefill"]
    (plan,) = (one for one in nodes_of(live.tree) if one.name == "plan#0")
    assert plan.started_at_s == 0.5


def test_an_answer_that_fails_its_check_begins_anew() -> None:
    live = begun(NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "job.py:2", 0.0))
    spent = Ledger(output_tokens=5, cost_pico=30, currency="USD")
    found = states(
        live,
        "plan#0",
        RequestSent(RUN, PLAN, RequestId(1), "remote", "m", True, 0.1),
        FirstToken(RUN, PLAN, 0.2),
        AttemptFailed(RUN, PLAN, 0, "no JSON", spent, 0.3),
        RequestSent(RUN, PLAN, RequestId(2), "remote", "m", True, 0.4),
        NodeFinished(RUN, PLAN, "ok", 0.9, ledger=spent),
    )
    assert found == ["sent", "decode", "waiting", "sent", "ok"]
    assert live.tree is not None
    assert (live.tree.root.counts.cost_pico, live.tree.currency) == (60, "USD")


def test_the_states_of_a_tool_and_of_a_question() -> None:
    ask = NodeId("job#0/ask#0")
    live = begun()
    declared = NodeDeclared(RUN, LOOK, "tool", "look", ROOT, (), "job.py:2", 0.1)
    tool = (ToolStarted(RUN, LOOK, 0, 0.2), ToolEnded(RUN, LOOK, 0, 0.5))
    ended = NodeFinished(RUN, LOOK, "cancelled", 0.6, reason="deadline")
    assert states(live, "look#0", declared, *tool, ended) == ["queue", "tool", "tool", "cancelled"]
    asked = NodeDeclared(RUN, ask, "ask", "ask", ROOT, (), "job.py:2", 0.1)
    assert states(live, "ask#0", asked) == ["asks"]
    assert [one.name for one in live.in_flight()] == ["ask#0"]


def test_a_tool_of_an_item_does_not_wait_for_its_plan() -> None:
    live = begun(NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "job.py:2", 0.0))
    called = NodeDeclared(RUN, LOOK, "tool", "look", ROOT, (PLAN,), "job.py:3", 0.1, plan=PLAN)
    assert states(live, "look#0", called) == ["queue"]


def test_runs_of_a_batch_are_branches_of_one_tree() -> None:
    live = begun(
        NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "job.py:2", 0.0),
        RunStarted(OTHER, "job", "job.py:job", 0.1, 0),
        NodeDeclared(OTHER, ROOT, "program", "job", None, (), "job.py:1", 0.1),
        NodeDeclared(OTHER, PLAN, "generate", "plan", ROOT, (), "job.py:2", 0.1),
        NodeFinished(RUN, PLAN, "failed", 0.2),
        NodeFinished(RUN, ROOT, "failed", 0.2),
        RunFinished(RUN, "failed", 0.2),
        runs=2,
    )
    assert live.tree is not None
    assert [one.name for one in nodes_of(live.tree)] == ["runs", "7: job#0", "job#0", "plan#0"]
    assert live.tree.root.counts.nodes["failed"] == 2, "what was forgotten is counted"
    assert (live.runs_done, live.runs_failed) == (1, 1)
    assert [one.name for one in live.by_interest()] == ["7: job#0", "job#0", "plan#0"]
    live.on_events([NodeFinished(OTHER, ROOT, "ok", 0.9), RunFinished(OTHER, "ok", 0.9)])
    assert (live.tree.root.state, live.tree.root.ended_at_s) == ("failed", 0.9)


def test_runs_that_ended_long_ago_are_left_out() -> None:
    live = LiveRunTree(5000)
    for number in range(3000):
        run = RunId(f"{number:016x}")
        live.on_events(
            [
                RunStarted(run, "job", "job.py:job", float(number), 0),
                NodeDeclared(run, ROOT, "program", "job", None, (), "job.py:1", float(number)),
                NodeFinished(run, ROOT, "ok", number + 0.5),
                RunFinished(run, "ok", number + 0.5),
            ]
        )
    assert live.tree is not None
    assert len(live.tree.root.children) < 1100
    assert live.tree.root.counts.nodes["ok"] == 3000


def test_nodes_at_work_come_first_and_those_that_ended_last() -> None:
    live = begun(
        NodeDeclared(RUN, LOOK, "tool", "look", ROOT, (), "job.py:2", 0.0),
        NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "job.py:3", 0.0),
        ToolStarted(RUN, LOOK, 0, 0.1),
    )
    assert [one.name for one in live.by_interest()] == ["look#0", "job#0", "look#0", "plan#0"]
    live.on_events([NodeFinished(RUN, LOOK, "failed", 0.2)])
    assert [one.name for one in live.by_interest()] == ["look#0", "job#0", "plan#0"]
    live.on_events([NodeFinished(RUN, PLAN, "ok", 0.3)])
    assert [one.name for one in live.by_interest()] == ["look#0", "job#0", "plan#0"]
