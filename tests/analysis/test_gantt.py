"""Bars over time."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord, bars, gantt
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work


def played(*body: Statement) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body))
    return record


def test_a_plan_its_tools_and_a_report() -> None:
    record = played(
        Work("generate", queue_s=0.1, prefill_s=0.1, decode_s=0.2, items=1),
        WaitStatement(0, 0),
        Work("tool", plan=(0, 0), decode_s=0.4),
        Work("tool", plan=(0, 0), decode_s=0.1),
        Work("generate", deps=(1, 2), decode_s=0.2),
    )
    assert gantt(record, width=66).splitlines() == [
        "generate0 *|...===######                   |    400 ms saves 400",
        "tool1     *|            tttttttttttt       |    400 ms saves 300",
        "tool2      |            ttt                |    100 ms",
        "generate3 *|                        #######|    200 ms saves 200",
        ". queue  = prefill  # decode  t tool  * critical path, saves: if it took no time",
    ]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(60, 160))
def test_lines_have_their_width(rng: Random, width: int) -> None:
    record = played(*random_body(rng))
    lines = gantt(record, width).splitlines()
    assert all(len(line) <= width for line in lines[:-1])
    found = bars(record)
    if record.compound_s:
        assert len(lines) in {0, len(found) + 1}
    for bar in found:
        assert 0.0 <= bar.saving_s <= record.compound_s + 1e-9
