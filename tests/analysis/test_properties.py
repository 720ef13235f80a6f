"""On random programs the computed path, split and slack agree with what was played."""

from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentrt.analysis import (
    Causes,
    RunRecord,
    critical_path,
    replay_s,
    saving_s,
    slack_s,
    split,
    stages,
)
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Race, Statement, WaitStatement, Work

EPSILON_S = 1e-9
randoms = st.randoms(use_true_random=False)
quick = settings(max_examples=100, derandomize=True, deadline=None)


def record_of(body: tuple[Statement, ...], *, tell_after: bool = True) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body, tell_after=tell_after, gate_s=0.0005))
    return record


@quick
@given(randoms, st.booleans())
def test_path_covers_the_run_without_gap(rng: Random, tell_after: bool) -> None:
    record = record_of(random_body(rng), tell_after=tell_after)
    path = critical_path(record)
    assert path[0].started_at_s == record.started_at_s
    assert path[-1].ended_at_s == record.ended_at_s
    for before, after in pairwise(path):
        assert before.ended_at_s == after.started_at_s
    assert all(step.length_s >= 0.0 for step in path)


@quick
@given(randoms, st.booleans())
def test_split_sums_and_nothing_is_unattributed(rng: Random, tell_after: bool) -> None:
    record = record_of(random_body(rng), tell_after=tell_after)
    found = split(record)
    assert sum(found.parts().values()) == pytest.approx(record.compound_s, abs=1e-9)
    if all(step.part != "stop" for step in critical_path(record)):  # cancelled: without a ledger
        assert found.unattributed == pytest.approx(0.0, abs=1e-9)
    assert found.admission == pytest.approx(0.0005)


@quick
@given(randoms)
def test_stages_lie_end_to_end(rng: Random) -> None:
    record = record_of(random_body(rng))
    causes = Causes(record)
    for node in record.leaves():
        at_s = causes.ready_at_s(node)
        for stage in stages(record, node, causes):
            assert stage.started_at_s == at_s
            at_s = stage.ended_at_s
            if stage.shares:
                assert sum(s for _, s in stage.shares) == pytest.approx(stage.length_s)
        assert at_s == pytest.approx(record.end_of(node), abs=EPSILON_S)


@quick
@given(randoms)
def test_inputs_form_no_circle(rng: Random) -> None:
    record = record_of(random_body(rng))
    causes = Causes(record)
    nodes = record.nodes.values()
    sources = {node.node_id: {one.node.node_id for one in causes.inputs(node)} for node in nodes}
    ordered = TopologicalSorter(sources).static_order()
    place = {node_id: index for index, node_id in enumerate(ordered)}
    assert len(place) == len(record.nodes)
    for node in record.nodes.values():
        for arrived in causes.inputs(node):
            assert place[arrived.node.node_id] < place[node.node_id]


@quick
@given(randoms, st.booleans())
def test_inputs_are_looked_up_once(rng: Random, tell_after: bool) -> None:
    """Path, slack, positions and stages all ask for them; a second look finds equal ones."""
    record = record_of(random_body(rng), tell_after=tell_after)
    causes, others = Causes(record), Causes(record)
    for node in record.nodes.values():
        assert causes.inputs(node) is causes.inputs(node)
        assert causes.last(node) is causes.last(node)
        assert causes.before_declaration(node) is causes.before_declaration(node)
        assert causes.inputs(node) == others.inputs(node)
        assert causes.last(node) == max(
            others.inputs(node), key=lambda one: (one.at_s, one.how != "declared"), default=None
        )


@quick
@given(randoms)
def test_nodes_on_the_path_have_no_slack(rng: Random) -> None:
    record = record_of(random_body(rng))
    slack = slack_s(record)
    for step in critical_path(record):
        if step.part == "work" and step.item is None:
            assert slack[step.node_id] == pytest.approx(0.0, abs=EPSILON_S)


@quick
@given(randoms, st.integers(0, 50), st.sampled_from((0.001, 0.01, 0.1)))
def test_a_node_that_takes_longer_lengthens_the_run_by_what_exceeds_its_slack(
    rng: Random, pick: int, longer_s: float
) -> None:
    """Played again with one duration changed, the run tells whether the slack was right.

    Values that were there before the code asked for them leave no mark on the run, so slack may be
    too large behind them, never too small; without such waits it is exact.
    """
    body = random_body(rng)
    before = record_of(body)
    works = [node for node in before.leaves() if not node.items]  # whose items would slip as well
    # Somebody waited for something, and no race can now be won by another node.
    assume(works and before.has_end_after and not _has(Race, body))
    victim = works[pick % len(works)].node_id
    after = record_of(_longer(body, victim, longer_s))
    expected_s = before.compound_s + max(0.0, longer_s - slack_s(before)[victim])
    assert after.compound_s >= expected_s - EPSILON_S
    if not _has(WaitStatement, body):
        assert after.compound_s == pytest.approx(expected_s, abs=EPSILON_S)


@quick
@given(randoms)
def test_replay_with_the_same_durations_is_the_run(rng: Random) -> None:
    record = record_of(random_body(rng))
    again_s = replay_s(record, lambda node, length_s: length_s)
    assert again_s == pytest.approx(record.compound_s, abs=EPSILON_S)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(randoms, st.integers(0, 50), st.sampled_from((0.001, 0.1)))
def test_replay_with_one_longer_node_is_that_run(rng: Random, pick: int, longer_s: float) -> None:
    """Played on paper with the change, and computed from the record of the run without it."""
    body = random_body(rng)
    before = record_of(body)
    works = [node for node in before.leaves() if not node.items]
    assume(works and before.has_end_after and not _has((WaitStatement, Race), body))
    victim = works[pick % len(works)].node_id
    after = record_of(_longer(body, victim, longer_s))
    predicted_s = replay_s(
        before, lambda node, length_s: length_s + longer_s * (node.node_id == victim)
    )
    assert predicted_s == pytest.approx(after.compound_s, abs=EPSILON_S)


@quick
@given(randoms)
def test_only_nodes_on_the_path_save_anything(rng: Random) -> None:
    record = record_of(random_body(rng))
    on_path = {step.node_id for step in critical_path(record)}
    for node in record.leaves():
        saved_s = saving_s(record, node.node_id)
        assert saved_s >= -EPSILON_S
        if node.node_id not in on_path:
            assert saved_s <= EPSILON_S


def _has(kinds: type | tuple[type, ...], body: tuple[Statement, ...]) -> bool:
    return any(
        isinstance(part, kinds) or (isinstance(part, CallStatement) and _has(kinds, part.body))
        for part in body
    )


def _longer(body: tuple[Statement, ...], victim: str, longer_s: float) -> tuple[Statement, ...]:
    """The same program, its node `victim` visible later; items keep their times."""
    wanted = int("".join(c for c in victim.rpartition("/")[2] if c.isdigit()))
    seen = 0

    def walk(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal seen
        made: list[Statement] = []
        for part in statements:
            if isinstance(part, CallStatement):
                part = CallStatement(walk(part.body))
            elif isinstance(part, Work) and seen == wanted:
                part = replace(part, after_s=part.after_s + longer_s)
            seen += isinstance(part, (CallStatement, Work))
            made.append(part)
        return tuple(made)

    return walk(body)
