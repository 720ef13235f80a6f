"""Runs that go on at the same time are kept apart."""

from agentrt.analysis import RunRecord, RunRecorder, split
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import BackendDown, StepDone, StepRecord
from tests.oracles.random_runs import play
from tests.oracles.statements import WaitStatement, Work


def woven(*runs: list[Event]) -> list[Event]:
    """One event of each in turn."""
    longest = max(len(run) for run in runs)
    return [run[place] for place in range(longest) for run in runs if place < len(run)]


def test_each_run_gets_its_own_record() -> None:
    long = play((Work("tool", decode_s=0.5), WaitStatement(0)), run_id="00000000000000a1")
    short = play((Work("tool", decode_s=0.1), WaitStatement(0)), run_id="00000000000000b2")
    done: list[RunRecord] = []
    recorder = RunRecorder(done.append)
    recorder.on_events(woven(long, short))
    lengths = {record.run_id: round(split(record).tool, 6) for record in done}
    assert lengths == {"00000000000000a1": 0.5, "00000000000000b2": 0.1}
    recorder.finish_open()
    assert len(done) == 2


def test_runs_that_do_not_end_are_handed_out_when_given_up() -> None:
    done: list[RunRecord] = []
    recorder = RunRecorder(done.append)
    recorder.on_events(play((Work("tool", decode_s=0.5),))[:-1])
    assert done == []
    recorder.finish_open()
    assert [record.finished for record in done] == [None]


def test_a_record_that_another_fills_is_passed_on_at_its_end() -> None:
    events = play((Work("tool", decode_s=0.5), WaitStatement(0)))
    filled: list[RunRecord] = []
    passed_on: list[RunRecord] = []
    taker = RunRecorder(passed_on.append)
    filler = RunRecorder(filled.append, on_begin=taker.on_record)
    for event in events:
        assert passed_on == []
        filler.on_events([event])
        taker.on_events([event])
    assert passed_on == filled
    (record,) = filled
    alone = RunRecord()
    alone.on_events(events)
    assert split(record) == split(alone)
    assert record.last_at_s == alone.last_at_s
    assert [node.seq for node in record.nodes.values()] == [
        node.seq for node in alone.nodes.values()
    ]


def test_a_record_that_another_fills_is_handed_out_when_given_up() -> None:
    passed_on: list[RunRecord] = []
    taker = RunRecorder(passed_on.append)
    record = RunRecord(RunId("00000000000000a1"))
    taker.on_record(record)
    taker.on_events(play((Work("tool", decode_s=0.5),), run_id=record.run_id)[:-1])
    taker.finish_open()
    assert passed_on == [record]
    assert record.nodes == {}  # nobody has filled it


def test_a_step_belongs_to_every_run_in_its_batch() -> None:
    body = (Work("generate", decode_s=0.1),)
    done: list[RunRecord] = []
    recorder = RunRecorder(done.append)
    one = play(body, run_id="00000000000000a1")
    two = play(body, run_id="00000000000000b2")
    shared = StepDone(StepRecord(7, 100.0, 100.1, 0, 2, (RequestId(1),)), (), ())
    foreign = StepDone(StepRecord(8, 100.0, 100.1, 0, 2, (RequestId(99),)), (), ())
    recorder.on_events([*one[:-1], *two[:-1], shared, foreign, one[-1], two[-1]])
    for record in done:
        assert 7 in [step.index for step in record.steps]
        assert 8 not in [step.index for step in record.steps]


def test_an_engine_that_went_down_is_noted_by_the_runs_it_served() -> None:
    events = play((Work("generate", decode_s=0.1),))
    down = BackendDown(ErrorRecord("EngineDied", "killed"), (RequestId(1),), restarting=True)
    other = BackendDown(ErrorRecord("EngineDied", "killed"), (RequestId(9),), restarting=True)
    record = RunRecord()
    record.on_events([*events[:-1], down, other, events[-1]])
    assert record.downs == [down]
