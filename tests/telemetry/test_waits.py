"""Why nodes waited, told from trace files alone."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import chat, gather, program, tool
from agentrt.analysis import RunRecord
from agentrt.app import open_runtime
from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunStarted,
    Scheduled,
)
from agentrt.telemetry import JaegerFile, Span, build, names
from agentrt.telemetry.reading import number_of, read, words_of
from agentrt.telemetry.waits import TraceNodes
from agentrt.testing.tiny_model import tiny_engine
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

RUN = RunId("00000000000000a1")


def story_of(events: Sequence[Event], folder: Path) -> TraceNodes:
    """Through a file and back."""
    record = RunRecord()
    record.on_events(events)
    return TraceNodes(read(JaegerFile(folder).export([build(record)]))[0])


def waits_of(story: TraceNodes, node_id: str) -> dict[str, tuple[float, str]]:
    return {wait.label: (wait.ms, wait.why) for wait in story.waits(story.nodes[node_id])}


def plain(span: Span) -> dict[str, Any]:
    """A span as a file can hold it: lists are text there, and links have no attributes."""
    told = {
        key: json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))
        if isinstance(value, tuple)
        else value
        for key, value in span.attributes.items()
    }
    events = [(event.name, event.at_us, event.attributes) for event in span.events]
    links = [(link.trace_id, link.span_id) for link in span.links]
    where = (span.name, span.span_id, span.parent_id, span.start_us, span.end_us, span.kind)
    return {"where": where, "told": told, "events": events, "links": links, "error": span.error}


def test_what_is_read_is_what_was_written(tmp_path: Path, finance: list[Any]) -> None:
    record = RunRecord()
    record.on_events(finance)
    written = build(record)
    found = read(JaegerFile(tmp_path).export([written]))[0]
    assert found.trace_id == written.trace_id
    for one, other in zip(found.spans, written.spans, strict=True):
        ours, theirs = plain(one), plain(other)
        extra = ours["told"].keys() - theirs["told"].keys()
        assert extra <= {"error", "otel.status_code", "otel.scope.name"}
        assert {key: ours["told"][key] for key in theirs["told"]} == theirs["told"]
        assert {**ours, "told": {}} == {**theirs, "told": {}}
    assert words_of(found.spans[0].attributes, names.PATH_NODES)[0] == "root/generate0"
    assert words_of(found.spans[0].attributes, "nothing") == ()
    assert number_of(found.spans[0].attributes, names.RUN_ID) == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "is no trace"),
        ("[]", "is no trace"),
        ('{"data":[{"spans":[{}],"processes":{}}]}', "is no trace"),
        ('{"data":[]}', "holds no trace"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "y.json")


WAITED: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    Work("tool", queue_s=0.05, decode_s=0.5),
    Work("generate", deps=(0, 1), early_s=0.05, prefill_s=0.02, decode_s=0.3),
    WaitStatement(2),
)


@pytest.mark.parametrize(
    ("held_back", "reason"),
    [
        ((), "150.0 ms of it in the server's own queue"),
        (
            (("passed_over_in_flight", 3.0), ("passed_over_rate", 1.0)),
            "of 4 rounds as many requests with the engine as it serves at once in 3 (37.5 ms), the "
            "rate of requests used up in 1 (12.5 ms); 150.0 ms of it in the server's own queue",
        ),
    ],
    ids=["not held back", "held back"],
)
def test_the_queue_of_a_server_is_told_apart(
    tmp_path: Path, held_back: tuple[tuple[str, float], ...], reason: str
) -> None:
    """As a part of the time in the queue, so that it counts once."""
    events: list[Event] = []
    for one in play(WAITED):
        events.append(one)
        if isinstance(one, NodeFinished) and one.ledger is not None and one.ledger.queue_s:
            ledger = replace(one.ledger, server_queue_s=0.15)
            events[-1] = replace(one, ledger=ledger)
        if isinstance(one, RequestSent) and held_back:
            terms = (one.run_id, one.node_id, one.at_s, "placed", "because", "rwa", held_back)
            events.append(Scheduled(*terms))
    story = story_of(events, tmp_path)
    first, _, last = (one.node_id for one in events if isinstance(one, NodeDeclared) if one.parent)
    assert story.nodes[first].attributes[names.SERVER_QUEUE_MS] == 150.0
    assert names.SERVER_QUEUE_MS not in story.nodes[last].attributes
    queue_ms, why = waits_of(story, first)["queue"]
    assert queue_ms == pytest.approx(200.0, abs=0.1)
    assert why == reason


def test_each_part_of_a_nodes_time_has_its_reason(tmp_path: Path) -> None:
    events = play(WAITED)
    declared = [one.node_id for one in events if isinstance(one, NodeDeclared)]
    _, first, lookup, last = declared
    terms = (
        ("queued_s", 0.2),
        ("passed_over_pages", 6.0),
        ("passed_over_prefix", 2.0),
        ("aged_s", 0.5),
    )
    told: list[Event] = []
    for one in events:
        told.append(one)
        if isinstance(one, RunStarted):
            told[-1] = replace(one, tenant="them", priority=2)
        if isinstance(one, RequestSent) and one.node_id == first:
            reason = "because; before it: other"
            told.append(Scheduled(one.run_id, first, one.at_s, "placed", reason, "rwa", terms))
    story = story_of(told, tmp_path)
    assert story.root.attributes[names.TENANT] == "them"
    assert story.root.attributes[names.PRIORITY] == 2

    waits = waits_of(story, first)
    assert waits["queue"][0] == pytest.approx(200.0, abs=0.1)
    assert waits["queue"][1] == (
        "of 8 steps too little memory in 6 (150.0 ms), "
        "another one computing the same prefix in 2 (50.0 ms)"
    )
    assert waits["decode"][0] == pytest.approx(400.0, abs=0.1)
    (decision,) = story.decisions(story.nodes[first])
    assert decision.attributes[names.TERM.format("aged_s")] == 0.5
    assert decision.attributes[names.POLICY] == "rwa"

    waits = waits_of(story, lookup)
    assert waits["queue"][0] == pytest.approx(50.0, abs=0.1)
    assert waits["queue"][1] == "for a worker that was free"
    waits = waits_of(story, last)
    node = story.nodes[first]
    assert waits["inputs"][0] == pytest.approx(700.0, abs=0.1)
    assert waits["inputs"][1].startswith(
        f"the hole in its prompt was generate {node.attributes[names.NODE_ID]}, the last of 2"
    )
    assert "of it before, at no cost; 40 were there when its last" in waits["prefill"][1]
    for node_id, span in story.nodes.items():
        inside_ms = sum(ms for label, (ms, _) in waits_of(story, node_id).items())
        whole_ms = story.end_ms(span) - number_of(span.attributes, names.NODE_DECLARED_MS)
        assert inside_ms == pytest.approx(whole_ms, abs=0.2), node_id


@tool(effects="pure")
def halve(number: int) -> float:
    """Half of it."""
    return number / 2


@program
async def three(question: str) -> float:
    """Three branches of one prefix, more than run at once, and a tool."""
    base = chat(system="Say something about numbers.")
    asked = [base.user(f"{question} {at}") for at in range(3)]
    counts = await gather(*(one.generate(int, max_tokens=6, on_limit="close") for one in asked))
    return await halve(sum(counts))


class Records:
    def __init__(self) -> None:
        self.of: dict[RunId, RunRecord] = {}

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunStarted):
                self.of[event.run_id] = RunRecord(event.run_id)
        for record in self.of.values():
            record.on_events(events)


@pytest.mark.model
def test_the_real_engine_tells_whom_a_node_waited_for(tmp_path: Path) -> None:
    config = replace(tiny_engine(tmp_path / "model"), max_running=1)
    seen = Records()

    async def main() -> None:
        async with (
            open_runtime(
                engine=config,
                observers=[seen],
                place="thread",
                scheduler=SchedulerConfig(policy="plas", gate_share=0.0),
            ) as runtime,
            anyio.create_task_group() as tasks,
        ):
            for number in range(2):
                tasks.start_soon(runtime.run, three, f"How many of {number}?")

    anyio.run(main)
    placed = {}
    for number, record in enumerate(seen.of.values()):
        story = TraceNodes(read(JaegerFile(tmp_path / str(number)).export([build(record)]))[0])
        for node_id, span in story.nodes.items():
            if span.attributes[names.NODE_KIND] != "generate":
                continue
            # Its prompt may be computed before its grammar: then it is placed twice.
            *_, decision = [
                one for one in story.decisions(span) if one.attributes[names.DECISION] == "placed"
            ]
            assert decision.attributes[names.POLICY] == "plas"
            assert names.TERM.format("attained_s") in decision.attributes
            placed[number, NodeId(node_id)] = str(decision.attributes[names.DECISION_REASON])
    assert len(placed) == 6
    waited = [reason for reason in placed.values() if "too many running at once in" in reason]
    assert len(waited) >= 4, placed
    assert any(" of run " in reason for reason in waited), "other runs are named too"
