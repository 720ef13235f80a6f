"""Replays with one thing changed: what they save, and what no change can do."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import NodeRecord, RunRecord, replay_s
from agentrt.analysis.stage import LABELS, Label
from agentrt.analysis.what_if import MAX_SITES, cut_off_names, engine_count, scaled_s, what_ifs
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RunId
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    PrefixLost,
    RequestSent,
    RunFinished,
    Scheduled,
    ToolEnded,
)
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import STOPPING_S, play
from tests.oracles.statements import Race, Statement, WaitStatement, Work

EPSILON_S = 1e-9
RUN_ID = RunId("00000000000000a1")
randoms = st.randoms(use_true_random=False)
factors = st.dictionaries(st.sampled_from(LABELS), st.floats(0.0, 1.0))
quick = settings(max_examples=80, derandomize=True, deadline=None)


def record_of(*body: Statement, gate_s: float = 0.0) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body, gate_s=gate_s))
    return record


def saved(record: RunRecord) -> dict[str, float]:
    return {one.change: round(one.saved_s, 9) for one in what_ifs(record)}


@quick
@given(randoms)
def test_no_change_that_only_removes_time_makes_a_run_slower(rng: Random) -> None:
    record = record_of(*random_body(rng), gate_s=0.0005)
    found = what_ifs(record)
    assert len(found) <= MAX_SITES + 6
    for one in found:
        assert 0.0 <= one.saved_s <= record.compound_s + EPSILON_S
        assert one.compound_s + one.saved_s == pytest.approx(record.compound_s)
    savings = [one.saved_s for one in found]
    assert savings == sorted(savings, reverse=True)


@quick
@given(randoms, factors, factors)
def test_removing_more_time_saves_at_least_as_much(
    rng: Random, some: dict[Label, float], more: dict[Label, float]
) -> None:
    record = record_of(*random_body(rng))
    less = {label: some.get(label, 1.0) * more.get(label, 1.0) for label in LABELS}
    with_some_s = scaled_s(record, lambda _, label: some.get(label, 1.0))
    with_both_s = scaled_s(record, lambda _, label: less[label])
    assert with_both_s <= with_some_s + EPSILON_S <= record.compound_s + 2 * EPSILON_S


@quick
@given(randoms)
def test_an_unchanged_run_takes_as_long_as_it_did(rng: Random) -> None:
    record = record_of(*random_body(rng))
    assert scaled_s(record, lambda _, __: 1.0) == pytest.approx(record.compound_s, abs=EPSILON_S)


@quick
@given(randoms, st.floats(0.0, 1.0))
def test_a_run_whose_every_second_shrinks_shrinks_by_as_much(rng: Random, share: float) -> None:
    """Without code, whose time is no label, all lengths scale and so does their longest chain."""
    assert_shrinks_by(record_of(*random_body(rng)), share)


def test_what_was_cut_off_before_any_input_does_not_shrink() -> None:
    """Its time is no work: whoever wins at once, a loser takes as long to stop."""
    record = record_of(Race((Work("tool"), Work("tool", decode_s=1.0))))
    assert record.compound_s == pytest.approx(STOPPING_S)
    assert scaled_s(record, lambda _, __: 0.5, code=False) == pytest.approx(STOPPING_S)
    assert_shrinks_by(record, 0.5)


def assert_shrinks_by(record: RunRecord, share: float) -> None:
    """Hold a run to its replay with lengths of that share, but of nodes that were cut off."""

    def length_s(node: NodeRecord, measured_s: float) -> float:
        return measured_s if node.is_cut_off else share * measured_s

    scaled = scaled_s(record, lambda _, __: share, code=False)
    assert scaled == pytest.approx(replay_s(record, length_s, code=False), abs=1e-6)
    if not any(node.is_cut_off for node in record.leaves()):
        free_s = replay_s(record, lambda _, measured_s: measured_s, code=False)
        assert scaled == pytest.approx(share * free_s, abs=1e-6)


def test_each_change_saves_what_it_takes_from_the_path() -> None:
    record = record_of(
        Work("generate", queue_s=0.2, prefill_s=0.4, decode_s=0.4),
        WaitStatement(0),
        Work("tool", queue_s=0.1, decode_s=1.0),
        WaitStatement(1),
        Work("generate", decode_s=0.6),
        gate_s=0.1,
    )
    assert record.compound_s == pytest.approx(2.8)
    assert saved(record) == {
        "generate writes half as many tokens": 0.5,
        "tool twice as fast": 0.5,
        "All decoding twice as fast": 0.5,
        "No queueing": 0.4,
        "Every prefix warm": 0.39,  # 40 tokens were computed, one has to be
        "One engine more": 0.15,  # half of the wait for one engine, none of that for a worker
        "No time in the program's code": 0.0,
    }


def test_a_faster_tool_beside_a_slower_one_saves_nothing() -> None:
    record = record_of(Work("tool", decode_s=0.2), Work("generate", decode_s=1.0))
    assert "tool twice as fast" not in saved(record)
    assert scaled_s(record, lambda node, _: 0.5 if node.kind == "tool" else 1.0) == 1.0


def test_lost_prefixes_are_told_with_what_they_cost() -> None:
    told = play((Work("generate", prefill_s=0.4, decode_s=0.1),))
    at = next(place for place, one in enumerate(told) if isinstance(one, RequestSent))
    sent = told[at]
    assert isinstance(sent, RequestSent)
    told.insert(at, PrefixLost(RUN_ID, sent.node_id, 10, "tools_changed", sent.at_s))
    record = RunRecord()
    record.on_events(told)
    assert saved(record)["No prefix lost"] == pytest.approx(0.1)  # 10 of the 40 computed tokens


def test_one_of_several_engines_more_helps_less() -> None:
    told = []
    for one in play((Work("generate", queue_s=0.3, decode_s=0.1),)):
        told.append(one)
        if isinstance(one, RequestSent):
            for worker in ("http://a", "http://b"):
                placed = Scheduled(RUN_ID, one.node_id, one.at_s, "placed", "", worker=worker)
                told.append(placed)
    record = RunRecord()
    record.on_events(told)
    assert engine_count(record) == 2
    assert saved(record)["One engine more"] == pytest.approx(0.1)


LATE = ErrorRecord("DeadlineExceeded", "passed its deadline")


def ended(told: list[Event], kind: str, **how: Any) -> RunRecord:
    """The record of a run of which the nodes of a kind end otherwise."""
    ids = {one.node_id for one in told if isinstance(one, NodeDeclared) and one.kind == kind}
    record = RunRecord()
    for one in told:
        is_end = isinstance(one, NodeFinished) and one.node_id in ids
        record.on_events([replace(one, **how) if is_end else one])
    return record


@pytest.mark.parametrize(
    "how",
    [
        {"outcome": "failed", "error": LATE},
        {"outcome": "cancelled", "reason": "took longer than 1 s", "stopped_at_s": 101.0},
    ],
    ids=["deadline", "cancelled"],
)
def test_a_node_that_was_cut_off_saves_nothing(how: dict[str, Any]) -> None:
    told = play(
        (
            Work("tool", queue_s=0.2, decode_s=0.8),
            WaitStatement(0),
            Work("generate", decode_s=0.6),
            WaitStatement(1),
        )
    )
    record = ended(told, "tool", **how)
    assert saved(record) == {
        "generate writes half as many tokens": 0.3,
        "All decoding twice as fast": 0.3,
        "No queueing": 0.0,
        "One engine more": 0.0,
        "Every prefix warm": 0.0,
        "No time in the program's code": 0.0,
    }
    assert cut_off_names(record) == ("tool",)
    assert cut_off_names(record_of(Work("tool", decode_s=0.8))) == ()


def test_a_tool_that_timed_out_was_cut_off() -> None:
    told: list[Event] = [
        replace(one, error=ErrorRecord("TimeoutError", "took longer than 1 s"))
        if isinstance(one, ToolEnded)
        else one
        for one in play((Work("tool", decode_s=1.0), WaitStatement(0)))
    ]
    failed = ended(told, "tool", outcome="failed", error=ErrorRecord("ToolFailed", "too slow"))
    assert "tool twice as fast" not in saved(failed)
    assert saved(ended(told, "tool", outcome="ok"))["tool twice as fast"] == pytest.approx(0.5)


def test_calls_that_ended_beside_one_that_was_cut_off_are_told_apart() -> None:
    told = play(
        tuple(one for at in (0, 1) for one in (Work("tool", decode_s=1.0), WaitStatement(at)))
    )
    first = next(one for one in told if isinstance(one, NodeFinished))
    told[told.index(first)] = replace(first, outcome="failed", error=LATE)
    record = RunRecord()
    record.on_events(told)
    found = what_ifs(record)[0]
    assert (found.change, round(found.saved_s, 9)) == ("tool twice as fast", 0.5)
    assert found.basis == "each call takes half its time, those that were cut off aside"


def test_items_before_a_cut_still_come_earlier() -> None:
    told = play(
        (
            Work("generate", queue_s=0.2, decode_s=0.8, items=4),
            WaitStatement(0, 0),
            Work("tool", plan=(0, 0), decode_s=1.0),
        )
    )
    record = ended(told, "generate", outcome="failed", error=LATE)
    assert scaled_s(record, lambda _, label: 0.0 if label == "queue" else 1.0) == pytest.approx(1.2)


def test_a_run_that_was_cut_off_has_no_estimates() -> None:
    told = play((Work("tool", decode_s=0.8), WaitStatement(0)))
    assert what_ifs(ended(told, "tool", outcome="ok"))
    assert what_ifs(ended(told, "program", outcome="failed", error=LATE)) == ()
    unfinished = RunRecord()
    unfinished.on_events(told[:-2])
    assert what_ifs(unfinished) == ()


def test_a_run_that_never_began_has_nothing_to_save() -> None:
    started, *_ = play((Work("tool", decode_s=1.0),))
    record = RunRecord()
    record.on_events([started, RunFinished(RUN_ID, "failed", 100.0)])
    assert all(one.saved_s == 0.0 for one in what_ifs(record))


def test_the_factor_sees_the_node() -> None:
    record = record_of(Work("tool", decode_s=0.2), WaitStatement(0), Work("tool", decode_s=0.4))
    first = next(iter(record.leaves()))

    def factor(node: NodeRecord, _: Label) -> float:
        return 0.0 if node is first else 1.0

    assert scaled_s(record, factor) == pytest.approx(0.4)


def test_items_of_a_plan_come_earlier_by_what_was_removed_before_them() -> None:
    record = record_of(
        Work("generate", queue_s=0.2, decode_s=0.8, items=4),
        WaitStatement(0, 0),
        Work("tool", plan=(0, 0), decode_s=1.0),
    )
    assert record.compound_s == pytest.approx(1.4)
    assert scaled_s(record, lambda _, label: 0.0 if label == "queue" else 1.0) == pytest.approx(1.2)
    half_s = scaled_s(record, lambda _, label: 0.5 if label == "decode" else 1.0)
    assert half_s == pytest.approx(1.3)  # half of the first item's 0.2 s
