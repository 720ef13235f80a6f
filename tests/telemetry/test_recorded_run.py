"""A record read back from its trace is the record: same path, split, estimates, tokens, errors."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord, critical_path, slack_s, split, usage
from agentrt.analysis.what_if import what_ifs
from agentrt.base.errors import ErrorRecord, UsageError
from agentrt.base.ids import NodeId, RunId
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import (
    AttemptFailed,
    Event,
    EventOfNode,
    NodeDeclared,
    NodeFinished,
    PrefixLost,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import DraftCount, Ledger
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.node_attributes import expert_tokens_text
from agentrt.telemetry.reading import read
from agentrt.telemetry.recorded_ledger import expert_tokens_of
from agentrt.telemetry.recorded_run import run_record_of
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

RUN_ID = RunId("00000000000000a1")
CLOSE_S = 5e-8  # instants are rounded to nanoseconds, and lengths are sums of them
randoms = st.randoms(use_true_random=False)


def record_of(events: Sequence[Event]) -> RunRecord:
    record = RunRecord()
    record.on_events(events)
    return record


def again(record: RunRecord, folder: Path | None = None) -> RunRecord:
    """The record from its trace, through a file if a folder is given."""
    trace = build(record)
    if folder is not None:
        trace = read(JaegerFile(folder).export([trace]))[0]
    return run_record_of(trace)


def test_the_trace_that_a_run_joined_is_kept(tmp_path: Path) -> None:
    first, *rest = play((Work("tool", decode_s=0.1), WaitStatement(0)), run_id=RUN_ID)
    assert isinstance(first, RunStarted)
    caller = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    found = again(record_of([replace(first, caller=caller, session="s1"), *rest]), tmp_path)
    assert found.trace_id == caller.trace_id
    assert found.started is not None
    assert found.started.session == "s1"


@settings(max_examples=80, derandomize=True, deadline=None)
@given(randoms, st.booleans())
def test_the_analysis_of_the_trace_is_that_of_the_run(rng: Random, tell_after: bool) -> None:
    record = record_of(play(random_body(rng), gate_s=0.0005, tell_after=tell_after))
    found = again(record)
    assert found.compound_s == pytest.approx(record.compound_s, abs=CLOSE_S)
    before, after = critical_path(record), critical_path(found)
    assert [(one.node_id, one.part, one.item) for one in after] == [
        (one.node_id, one.part, one.item) for one in before
    ]
    assert [one.length_s for one in after] == pytest.approx(
        [one.length_s for one in before], abs=CLOSE_S
    )
    assert split(found).parts() == pytest.approx(split(record).parts(), abs=CLOSE_S)
    assert slack_s(found) == pytest.approx(slack_s(record), abs=CLOSE_S)
    savings = {one.change: one.saved_s for one in what_ifs(record)}
    assert {one.change: one.saved_s for one in what_ifs(found)} == pytest.approx(
        savings, abs=CLOSE_S
    )
    assert usage(found) == usage(record)


def test_a_file_holds_the_record(tmp_path: Path) -> None:
    body: tuple[Statement, ...] = (
        Work("generate", queue_s=0.1, decode_s=0.4, items=2),
        WaitStatement(0, 1),
        Work("tool", plan=(0, 1), queue_s=0.05, decode_s=0.5),
    )
    record = record_of(play(body, gate_s=0.01))
    found = again(record, tmp_path)
    assert critical_path(found)[-1].node_id == "root/tool1"
    assert split(found).parts() == pytest.approx(split(record).parts(), abs=CLOSE_S)
    assert found.run_id == RUN_ID
    assert found.started is not None
    assert found.started.program == "root"
    assert found.started.unix_ns == 1_700_000_000_000_000_000
    (tool,) = (node for node in found.leaves() if node.kind == "tool")
    assert (tool.declared.plan, tool.declared.plan_item) == ("root/generate0", 1)
    assert tool.declared.site == "made_up.py:1"


def test_tokens_drafts_cost_and_reasons_come_back() -> None:
    node_id = NodeId("root/generate0")
    ledger = Ledger(
        prompt_tokens=700,
        cached_tokens=400,
        output_tokens=90,
        forced_tokens=30,
        ahead_tokens=50,
        drafts=(DraftCount("grammar", 20, 1), DraftCount("prompt", 5, 9)),
        cost_pico=1_234_000_000,
        retried_cost_pico=4_000_000,
        currency="USD",
        expert_tokens=((4, 0, 2), (1, 5, 0)),
        expert_hits=7,
        expert_misses=2,
    )
    failed = Ledger(prompt_tokens=650, cached_tokens=10, output_tokens=40, cost_pico=7_000_000)
    told: list[Event] = []
    for one in play((Work("generate", decode_s=0.2),)):
        if isinstance(one, NodeFinished) and one.node_id == node_id:
            one = replace(one, ledger=ledger)
            told.append(AttemptFailed(RUN_ID, node_id, 0, "no JSON", failed, one.at_s))
            told.append(PrefixLost(RUN_ID, node_id, 33, "tools_changed", one.at_s))
            terms = (("queued_s", 0.25), ("place", 2.0))
            told.append(Scheduled(RUN_ID, node_id, one.at_s, "placed", "busy", "rwa", terms, "u:1"))
        told.append(one)
    record = record_of(told)
    found = again(record)
    assert usage(found) == usage(record)
    (node,) = found.leaves()
    assert node.ledger is not None
    assert node.ledger.drafts == ledger.drafts
    assert node.ledger.expert_tokens == ledger.expert_tokens
    assert (node.ledger.expert_hits, node.ledger.expert_misses) == (7, 2)
    assert node.lost[0].reason == "tools_changed"
    assert node.scheduled[0].terms == (("queued_s", 0.25), ("place", 2.0))
    assert node.failed[0][1].reason == "the answer failed its check"  # content is not captured
    captured = run_record_of(build(record, "SPAN_ONLY"))
    assert next(iter(captured.leaves())).failed[0][1].reason == "no JSON"


def test_errors_and_attempts_come_back() -> None:
    node_id = NodeId("root/tool0")
    error = ErrorRecord("ToolFailed", "the file is gone", where="a.py:3", holds_content=False)
    told: list[Event] = []
    for one in play((Work("tool", decode_s=0.2),), outcome="failed"):
        if isinstance(one, ToolEnded):
            middle_s = one.at_s - 0.1
            told.append(ToolEnded(RUN_ID, node_id, 1, middle_s, error))
            told.append(ToolStarted(RUN_ID, node_id, 2, middle_s))
        elif isinstance(one, NodeFinished):
            one = replace(one, outcome="failed", error=error)
        elif isinstance(one, RunFinished):
            one = replace(one, error=error)
        told.append(one)
    found = again(record_of(told))
    assert found.outcome == "failed"
    assert found.finished is not None
    assert found.finished.error is not None
    assert found.finished.error.message == "the file is gone"
    (tool,) = found.leaves()
    assert tool.outcome == "failed"
    assert [attempt.error is None for attempt in tool.attempts] == [False, True]
    assert tool.finished is not None
    assert tool.finished.error is not None
    assert tool.finished.error.type == "ToolFailed"


def test_a_run_cut_short_stays_open() -> None:
    told = play((Work("tool", decode_s=0.2), WaitStatement(0), Work("tool", decode_s=1.0)))
    cut = [one for one in told if getattr(one, "at_s", 0.0) < 100.5]
    record = record_of(cut)
    found = again(record)
    assert found.finished is None
    assert found.outcome == "cancelled"
    assert found.compound_s == pytest.approx(record.compound_s, abs=CLOSE_S)
    assert [node.outcome for node in found.nodes.values()] == [None, "ok", None]


def test_a_run_that_failed_before_it_began_has_no_nodes() -> None:
    started, *_ = play(())
    error = ErrorRecord("EngineDied", "no engine", holds_content=False)
    record = record_of([started, RunFinished(RUN_ID, "failed", 100.25, error)])
    found = again(record)
    assert found.nodes == {}
    assert found.outcome == "failed"
    assert found.compound_s == pytest.approx(0.25, abs=CLOSE_S)


def test_slashes_in_names_do_not_change_parents() -> None:
    told: list[Event] = []
    for one in play((Work("tool", decode_s=0.2),)):
        if isinstance(one, EventOfNode) and one.node_id == "root/tool0":
            one = cast(Event, replace(one, node_id=NodeId("root/a/b#0")))
        told.append(one)
    found = again(record_of(told))
    assert found.nodes[NodeId("root/a/b#0")].parent is found.root


def test_a_trace_without_the_graph_says_so(tmp_path: Path) -> None:
    path = JaegerFile(tmp_path).export([build(record_of(play((Work("tool", decode_s=0.2),))))])
    document = json.loads(path.read_text())
    for span in document["data"][0]["spans"]:
        span["tags"] = [tag for tag in span["tags"] if tag["key"] != "agentrt.node.order"]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="graph"):
        run_record_of(read(path)[0])


def test_declarations_name_what_code_waited_for() -> None:
    told = play((Work("tool", decode_s=0.2), WaitStatement(0), Work("tool", decode_s=0.1)))
    assert any(isinstance(one, NodeDeclared) and one.after for one in told)
    found = again(record_of(told))
    assert [node.declared.after for node in found.leaves()] == [None, "root/tool0"]


@given(
    st.integers(1, 4).flatmap(
        lambda experts: st.lists(
            st.lists(st.integers(0, 10**9), min_size=experts, max_size=experts).map(tuple)
        ).map(tuple)
    )
)
def test_counts_of_experts_come_back_from_their_text(counts: tuple[tuple[int, ...], ...]) -> None:
    assert expert_tokens_of(expert_tokens_text(counts)) == counts


@pytest.mark.parametrize("text", ["", "1,2;3", "a,b", "1,;2,3"])
def test_texts_that_are_no_counts_are_none(text: str) -> None:
    assert expert_tokens_of(text) == ()
