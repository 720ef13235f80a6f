"""Known runs, label by label."""

from collections.abc import Iterator

import pytest

from agentrt.analysis import Causes, RunRecord, critical_path, replay_s, slack_s, split, stages
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    Event,
    FirstToken,
    HoleFilled,
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import Ledger, StepDone, StepRecord
from tests.oracles.random_runs import play
from tests.oracles.statements import (
    CallStatement,
    Race,
    Statement,
    ThinkStatement,
    WaitStatement,
    Work,
)

RUN = RunId("00000000000000a1")
ROOT = NodeId("root")
GEN = NodeId("root/gen#0")


def played(*body: Statement) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body))
    return record


def one_generation(*events: Event, finished: NodeFinished | None, end_s: float) -> RunRecord:
    """A program that makes one generation at once and returns its value."""
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "p", None, (), "p.py:1", 0.0),
            NodeDeclared(RUN, GEN, "generate", "gen", ROOT, (), "p.py:2", 0.0),
            NodeDemanded(RUN, GEN, 0.0),
            *events,
            *([finished] if finished else []),
            NodeFinished(RUN, ROOT, "ok", end_s),
            RunFinished(RUN, "ok", end_s),
        ]
    )
    return record


def sent(at_s: float, *, backend: str = "embedded", held_s: float = 0.0) -> RequestSent:
    return RequestSent(RUN, GEN, RequestId(1), backend, "tiny", True, at_s, held_s)


def test_plan_tools_report() -> None:
    """The path of the finance program: plan up to an item, its tool, the report."""
    record = played(
        Work("generate", prefill_s=0.1, decode_s=0.4, items=2),
        WaitStatement(0, 0),
        Work("tool", plan=(0, 0), decode_s=0.5),
        WaitStatement(0, 1),
        Work("tool", plan=(0, 1), decode_s=0.1),
        Work("generate", deps=(1, 2), early_s=0.05, prefill_s=0.02, decode_s=0.3),
    )
    steps = [(step.node_id, step.part, step.item) for step in critical_path(record)]
    assert steps == [
        ("root/generate0", "work", 0),
        ("root/tool1", "work", None),
        ("root/generate3", "work", None),
    ]
    found = split(record)
    assert found.tool == pytest.approx(0.5)
    assert found.prefill == pytest.approx(0.12)  # 0.05 s of it was done in the shadow of the tools
    assert found.decode == pytest.approx(0.2 + 0.3)
    assert slack_s(record)[NodeId("root/tool2")] == pytest.approx(0.2)


def test_code_that_reads_along_goes_on_in_the_middle_of_a_generation() -> None:
    """A tool that was started once enough text had come, and that ended last."""
    tool = NodeId("root/tool#0")
    ledger = Ledger(first_token_at_s=0.1, finished_at_s=0.5, prefill_s=0.1, decode_s=0.4)
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "p", None, (), "p.py:1", 0.0),
            NodeDeclared(RUN, GEN, "generate", "gen", ROOT, (), "p.py:2", 0.0),
            sent(0.0),
            FirstToken(RUN, GEN, 0.1),
            NodeDeclared(RUN, tool, "tool", "t", ROOT, (), "p.py:3", 0.3, after=GEN),
            ToolStarted(RUN, tool, 0, 0.3),
            NodeFinished(RUN, GEN, "ok", 0.5, ledger=ledger),
            ToolEnded(RUN, tool, 0, 1.3),
            NodeFinished(RUN, tool, "ok", 1.3),
            NodeFinished(RUN, ROOT, "ok", 1.3, after=tool),
            RunFinished(RUN, "ok", 1.3),
        ]
    )
    steps = [(step.node_id, step.part) for step in critical_path(record)]
    assert steps == [(GEN, "work"), (tool, "work")]
    found = split(record)
    assert (found.prefill, found.decode, found.tool) == pytest.approx((0.1, 0.2, 1.0))
    assert found.orchestration == pytest.approx(0.0)
    slower = replay_s(record, lambda node, length_s: length_s * (2 if node.node_id == GEN else 1))
    assert slower == pytest.approx(1.6)  # the tool would have begun at 0.6


def test_a_prompt_made_whole_during_a_step_waits_for_its_end() -> None:
    """The engine was computing the parts before the last hole when that was filled."""
    ledger = Ledger(0.0, 0.6, 0.2, 0.9, 1.0, queue_s=0.0, prefill_s=0.7, decode_s=0.1)
    step = StepRecord(0, 0.2, 0.6, 30, 0, (RequestId(1),))
    record = one_generation(
        sent(0.0),
        HoleFilled(RUN, GEN, 0.3),
        StepDone(step, (), ()),
        finished=NodeFinished(RUN, GEN, "ok", 1.0, ledger=ledger),
        end_s=1.0,
    )
    found = split(record)
    assert found.prefill == pytest.approx(0.4 + 0.3)
    assert found.orchestration == pytest.approx(0.2)
    assert found.decode == pytest.approx(0.1)


def test_code_between_nodes_is_orchestration() -> None:
    record = played(
        ThinkStatement(0.01), Work("tool", decode_s=0.1), WaitStatement(0), ThinkStatement(0.02)
    )
    found = split(record)
    assert (found.tool, found.orchestration) == pytest.approx((0.1, 0.03))
    parts = [step.part for step in critical_path(record)]
    assert parts == ["code", "work", "code"]


def test_path_goes_into_a_called_program() -> None:
    record = played(
        CallStatement((Work("tool", decode_s=0.2), ThinkStatement(0.01), WaitStatement(0))),
        WaitStatement(1),
    )
    assert [step.node_id for step in critical_path(record)] == ["root/sub0/tool0"]


def test_a_value_that_was_there_early_is_not_waited_for() -> None:
    """Awaiting a finished node costs nothing, so the path keeps to what code really waited for."""
    record = played(
        Work("tool", decode_s=0.1),
        Work("tool", decode_s=0.5),
        WaitStatement(1),
        WaitStatement(0),
        Work("tool", decode_s=0.2),
    )
    assert [step.node_id for step in critical_path(record)] == ["root/tool1", "root/tool2"]


def test_path_goes_through_the_winner_of_a_race() -> None:
    """The losers' ends are waited for, but what led to them is the winner."""
    record = played(
        Race((Work("tool", decode_s=0.5), Work("tool", decode_s=0.1), Work("tool", decode_s=0.3))),
        Work("tool", decode_s=0.2),
    )
    steps = [(step.node_id, step.part) for step in critical_path(record)]
    assert steps == [
        ("root/tool1", "work"),
        ("root/tool0", "stop"),
        ("root/tool3", "work"),
    ]
    assert split(record).tool == pytest.approx(0.302)
    slack = slack_s(record)
    assert slack[NodeId("root/tool1")] == 0.0


def test_a_run_cut_by_its_deadline_goes_through_what_was_under_way() -> None:
    """Nobody's code asked for that end, so the node was waited for all the while."""
    record = one_generation(
        sent(0.0),
        FirstToken(RUN, GEN, 0.1),
        finished=NodeFinished(RUN, GEN, "cancelled", 1.0, reason="its scope was cancelled"),
        end_s=1.0,
    )
    assert [step.node_id for step in critical_path(record)] == [GEN]
    assert split(record).decode == pytest.approx(0.9)


def test_hop_to_a_remote_engine_is_network() -> None:
    ledger = Ledger(0.2, 0.2, 0.3, 0.5, 0.9, queue_s=0.1, prefill_s=0.2, decode_s=0.4)
    record = one_generation(
        sent(0.1, backend="remote", held_s=0.04),
        finished=NodeFinished(RUN, GEN, "ok", 1.0, ledger=ledger),
        end_s=1.0,
    )
    found = split(record)
    assert found.network == pytest.approx(0.2)
    assert found.admission == pytest.approx(0.04)
    assert (found.queue, found.prefill, found.decode) == pytest.approx((0.1, 0.2, 0.4))
    assert found.unattributed == pytest.approx(0.0)


def test_what_the_ledger_leaves_open_is_unattributed() -> None:
    ledger = Ledger(0.0, 0.0, 0.1, 0.2, 1.0, queue_s=0.1, prefill_s=0.1, decode_s=0.5)
    record = one_generation(
        sent(0.0), finished=NodeFinished(RUN, GEN, "ok", 1.0, ledger=ledger), end_s=1.0
    )
    assert split(record).unattributed == pytest.approx(0.3)


def test_masks_between_decode_steps_are_constraint() -> None:
    ledger = Ledger(0.0, 0.0, 0.0, 0.2, 1.0, prefill_s=0.2, decode_s=0.6, constraint_s=0.2)
    record = one_generation(
        sent(0.0), finished=NodeFinished(RUN, GEN, "ok", 1.0, ledger=ledger), end_s=1.0
    )
    found = split(record)
    assert (found.decode, found.constraint) == pytest.approx((0.6, 0.2))


def test_prefill_before_the_last_hole_costs_nothing() -> None:
    ledger = Ledger(0.0, 0.5, 0.0, 0.6, 0.9, prefill_s=0.4, decode_s=0.3)
    tool = NodeId("root/tool#0")
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "p", None, (), "p.py:1", 0.0),
            NodeDeclared(RUN, tool, "tool", "t", ROOT, (), "p.py:2", 0.0),
            NodeDeclared(RUN, GEN, "generate", "gen", ROOT, (tool,), "p.py:3", 0.0),
            sent(0.0),
            NodeFinished(RUN, tool, "ok", 0.5),
            HoleFilled(RUN, GEN, 0.5),
            NodeFinished(RUN, GEN, "ok", 0.9, ledger=ledger),
            NodeFinished(RUN, ROOT, "ok", 0.9),
            RunFinished(RUN, "ok", 0.9),
        ]
    )
    found = split(record)
    assert found.prefill == pytest.approx(0.1)
    assert (found.decode, found.unattributed) == pytest.approx((0.3, 0.0))


def test_without_a_ledger_steps_and_tokens_tell() -> None:
    """A generation cancelled by the deadline, whose account never came."""
    step = StepRecord(0, 0.2, 0.5, 10, 0, (RequestId(1),))
    later = StepRecord(1, 0.5, 0.8, 0, 1, (RequestId(1),))
    record = one_generation(
        sent(0.1),
        StepDone(step, (), ()),
        FirstToken(RUN, GEN, 0.5),
        StepDone(later, (), ()),
        finished=NodeFinished(RUN, GEN, "cancelled", 1.0, reason="deadline"),
        end_s=1.0,
    )
    found = split(record)
    assert (found.queue, found.prefill, found.decode) == pytest.approx((0.1, 0.3, 0.3))
    assert found.unattributed == pytest.approx(0.2)


class Members(tuple[RequestId, ...]):
    """The requests of a step, which count how often they are looked through."""

    looks = 0

    def __iter__(self) -> Iterator[RequestId]:
        self.looks += 1
        return super().__iter__()

    def __contains__(self, one: object) -> bool:
        self.looks += 1
        return super().__contains__(one)


def test_steps_are_looked_through_once_for_all_nodes_without_a_ledger() -> None:
    gens = [NodeId(f"root/gen#{number}") for number in range(8)]
    members = Members(RequestId(number) for number in range(8))
    declared: list[Event] = []
    for number, gen in enumerate(gens):
        declared += [
            NodeDeclared(RUN, gen, "generate", "gen", ROOT, (), "p.py:2", 0.0),
            RequestSent(RUN, gen, RequestId(number), "embedded", "tiny", True, 0.1),
        ]
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "p", None, (), "p.py:1", 0.0),
            *declared,
            StepDone(StepRecord(0, 0.2, 0.5, 10, 0, members), (), ()),
            *(NodeFinished(RUN, gen, "cancelled", 1.0, reason="deadline") for gen in gens),
            NodeFinished(RUN, ROOT, "ok", 1.0),
            RunFinished(RUN, "ok", 1.0),
        ]
    )
    members.looks = 0
    causes = Causes(record)
    found = [[one.label for one in stages(record, record.nodes[gen], causes)] for gen in gens]
    assert found == 8 * [["orchestration", "queue", "prefill", "unattributed"]]
    assert members.looks == 1


def test_a_run_that_failed_before_its_program_began() -> None:
    record = RunRecord()
    error = ErrorRecord("UsageError", "no such file")
    record.on_events(
        [RunStarted(RUN, "p", "p.py:p", 0.0, 0), RunFinished(RUN, "failed", 0.5, error)]
    )
    assert split(record).admission == pytest.approx(0.5)
    assert [step.part for step in critical_path(record)] == ["submit"]


def test_a_record_takes_its_own_run_only() -> None:
    record = RunRecord(RunId("00000000000000b2"))
    record.on_events(play((Work("tool", decode_s=1.0),)))
    assert not record.nodes
    record.on_events(play((Work("tool", decode_s=2.0),), run_id="00000000000000b2"))
    assert record.compound_s == pytest.approx(2.0)


def test_a_run_cut_short_ends_with_its_last_event() -> None:
    events = play((Work("tool", decode_s=1.0), WaitStatement(0)))[:-3]
    record = RunRecord()
    record.on_events(events)
    assert record.outcome == "cancelled"
    assert sum(split(record).parts().values()) == pytest.approx(record.compound_s)
