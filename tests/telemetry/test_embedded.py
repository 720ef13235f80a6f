"""The real engine's ledger accounts for the whole critical path."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import anyio
import pytest
from pydantic import Field

from agentrt import chat, gather, program, tool
from agentrt.analysis import LABELS, RunRecord, critical_path, split, summary
from agentrt.analysis.transcript_reading import read_transcript
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.base.ids import NodeId
from agentrt.protocol.events import Event
from agentrt.telemetry import TranscriptObserver, build
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from agentrt.testing.tiny_model import tiny_engine
from tests.oracles import jaeger
from tests.telemetry.provider import KeptSpans, is_child, orphans

pytestmark = pytest.mark.model
Few = Annotated[int, Field(ge=0, le=999)]  # it ends within its tokens, whatever the model says
SYSTEM = chat(system="Say something about numbers.")


@tool(effects="pure")
def halve(number: int) -> float:
    """Half of it."""
    return number / 2


@program
async def branches(question: str) -> int:
    """Two forks of one prefix, a tool on their results, and a last word after it."""
    base = SYSTEM.user(question)
    counts = await gather(base.generate(Few, max_tokens=8), base.generate(Few, max_tokens=8))
    half = halve(sum(counts))
    report = base.user("Half of it is ", half, ". Report.")
    return await report.generate(int, max_tokens=12, on_limit="close")


class Seen:
    def __init__(self) -> None:
        self.record = RunRecord()

    def on_events(self, events: Sequence[Event]) -> None:
        self.record.on_events(events)


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TranscriptObserver]:
    with TranscriptObserver(tmp_path_factory.mktemp("said")) as observer:
        yield observer


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, transcripts: TranscriptObserver) -> RunRecord:
    config = tiny_engine(tmp_path_factory.mktemp("model"))
    seen = Seen()

    async def main(config: EngineConfig) -> None:
        async with open_runtime(
            engine=config, observers=[seen, transcripts], place="thread"
        ) as runtime:
            await runtime.run(branches, "How many?")

    anyio.run(main, config)
    return seen.record


def test_at_most_two_percent_are_unattributed(record: RunRecord) -> None:
    found = split(record)
    assert record.outcome == "ok"
    assert found.unattributed <= 0.02 * found.compound_s
    assert found.decode > 0.0
    assert set(found.parts()) == set(LABELS)


def test_path_goes_through_a_fork_the_tool_and_the_report(record: RunRecord) -> None:
    kinds = [record.nodes[step.node_id].kind for step in critical_path(record)]
    works = [kind for kind in kinds if kind != "program"]
    assert works == ["generate", "tool", "generate"]


def test_trace_is_sound_and_the_walk_is_the_path(record: RunRecord) -> None:
    document = json.loads(jaeger_json([build(record)], resources_of({})))
    assert jaeger.faults(document) == []
    trace = document["data"][0]
    nodes = {span["spanID"]: jaeger.tags_of(span)["agentrt.node.id"] for span in trace["spans"]}
    drawn = [nodes[part.span_id] for part in reversed(jaeger.critical_path(trace))]
    works = {step.node_id for step in critical_path(record) if step.part == "work"}
    assert {node for node in drawn if record.nodes[node].kind != "program"} == works


def test_shared_prefix_is_told(record: RunRecord) -> None:
    told = summary(record)
    assert told["usage"]["cached_tokens"] > 0
    forks = [node for node in record.nodes.values() if node.declared.fork_of]
    assert forks
    spans = build(record).spans
    links = {link.attributes["agentrt.link"] for span in spans for link in span.links}
    assert {"fork", "value"} <= links


def test_sources_are_paths_of_this_file(record: RunRecord) -> None:
    sites = {Path(node.declared.site.partition(":")[0]).name for node in record.nodes.values()}
    assert sites == {Path(__file__).name}


def test_what_the_engine_wrote_is_in_the_transcript(
    record: RunRecord, transcripts: TranscriptObserver
) -> None:
    path = transcripts.file_of(record.run_id)
    assert path is not None
    root, first, second, half, report = read_transcript(path).turns()
    assert [message.role for message in first.messages] == ["system", "user"]
    assert (second.messages, second.begins_as) == ((), first.node.node)
    counts = [turn.node.answer.parts[0].content for turn in (first, second) if turn.node.answer]
    assert half.node.arguments == json.dumps(
        {"number": sum(map(int, counts))}, separators=(",", ":")
    )
    said = [(part.content, part.node) for part in report.messages[0].parts]
    assert said[1] == (half.node.result, half.node.node)
    assert report.node.answer is not None
    assert report.node.answer.parts[0].content == root.node.result
    ledger = record.nodes[NodeId(first.node.node)].ledger
    assert ledger is not None
    assert first.node.output_tokens == ledger.output_tokens > 0


def test_live_spans_are_whole_traces_too(tmp_path: Path) -> None:
    kept, config = KeptSpans(), tiny_engine(tmp_path)

    async def main() -> None:
        async with open_runtime(
            engine=config, tracer_provider=kept.provider, place="thread"
        ) as runtime:
            await runtime.run(branches, "How many?")

    anyio.run(main)
    assert orphans(kept.all) == []
    assert kept.names()[-1] == "invoke_workflow branches"
    assert kept.names().count("chat int") == 3
    decoded = [span for span in kept.all if span.name == "engine.decode"]
    chats = [span for span in kept.all if span.name == "chat int"]
    assert decoded
    assert all(any(is_child(stage, chat) for chat in chats) for stage in decoded)
