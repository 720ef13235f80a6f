"""Lanes hold every bar, and what folded lanes show adds up."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import Causes, RunRecord, critical_path
from agentrt.analysis.report.bars import Bar, bars
from agentrt.analysis.report.timeline import COLUMNS, MAX_BARS_IN_LANE, activity, lanes
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Statement, WaitStatement, Work

randoms = st.randoms(use_true_random=False)
quick = settings(max_examples=50, derandomize=True, deadline=None)


def record_of(*body: Statement) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body))
    return record


def bars_of(record: RunRecord) -> tuple[Bar, ...]:
    causes = Causes(record)
    return bars(record, critical_path(record, causes), causes)


@quick
@given(randoms, st.integers(2, 30))
def test_all_bars_are_in_lanes_of_a_bounded_number(rng: Random, most: int) -> None:
    found = bars_of(record_of(*random_body(rng)))
    made = lanes(found, most)
    assert len(made) <= most
    assert sorted(bar.node_id for lane in made for bar in lane.bars) == sorted(
        bar.node_id for bar in found
    )
    starts = [lane.bars[0].start_s for lane in made]
    assert starts == sorted(starts)


def test_nodes_of_a_call_site_share_a_lane_below_their_program_first() -> None:
    inner = (Work("tool", decode_s=0.1), Work("tool", decode_s=0.2))
    found = bars_of(record_of(Work("tool", decode_s=0.1), Work("generate"), CallStatement(inner)))
    assert [lane.name for lane in lanes(found, 9)] == [
        "tool0",
        "generate1",
        "sub2/tool2",
        "sub2/tool3",
    ]
    assert [lane.name for lane in lanes(found, 3)] == ["tool", "generate", "sub2/tool"]
    assert [lane.name for lane in lanes(found, 2)] == ["tool", "generate"]


def test_a_folded_lane_shows_the_critical_and_the_longest() -> None:
    body = [Work("tool", decode_s=0.01 + n / 1000) for n in range(40)]
    found = bars_of(record_of(*body, WaitStatement(0), Work("generate", decode_s=2.0)))
    lane = lanes(found, 2)[0]
    chosen = lane.chosen()
    assert len(chosen) == MAX_BARS_IN_LANE
    assert chosen[0].critical
    assert {bar.node_id for bar in chosen[1:]} == {f"root/tool{n}" for n in range(29, 40)}


@quick
@given(randoms)
def test_the_columns_of_a_lane_add_up_to_its_work(rng: Random) -> None:
    record = record_of(*random_body(rng))
    if record.compound_s == 0.0:
        return
    found = bars_of(record)
    columns = activity(found, record.started_at_s, record.compound_s)
    assert len(columns) == COLUMNS
    width_s = record.compound_s / COLUMNS
    shown_s = sum(column.nodes * width_s for column in columns if column is not None)
    assert shown_s == pytest.approx(sum(s.length_s for bar in found for s in bar.stages), abs=1e-6)
