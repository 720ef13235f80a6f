"""Transcripts: a private file a run, written while it goes on, redacted and of bounded size."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt import chat, gather, program, redact_content, tool
from agentrt.analysis.transcript import Transcript
from agentrt.analysis.transcript_reading import read_transcript
from agentrt.base.content_config import ContentConfig
from agentrt.base.errors import ErrorRecord, FailedAttempt
from agentrt.base.ids import NodeId, RunId
from agentrt.base.segments import CallMade, Close, Generated, Open, Text
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.node_content import NodeContent, PromptLink
from agentrt.protocol.step_output import Ledger, StepDone
from agentrt.runtime import Runtime
from agentrt.telemetry import (
    SpanObserver,
    TranscriptObserver,
    runs_folder,
    transcript_observer,
    transcripts_of,
)
from agentrt.telemetry.run_files import TRANSCRIPT_SUFFIX
from agentrt.telemetry.transcript_observer import MAX_WAITING_CHARACTERS
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

RUN = RunId("00000000000000a1")
ROOT = NodeId("job#0")
GEN = NodeId("job#0/ask#0")
TOOL = NodeId("job#0/look#0")
STARTED = RunStarted(RUN, "job", "job.py:job", 100.0, 1_700_000_000_000_000_000)
ENDED = RunFinished(RUN, "ok", 102.0)


def declared(node: NodeId, kind: Any, at_s: float = 100.1) -> NodeDeclared:
    name = node.rpartition("/")[2].partition("#")[0]
    parent = None if node == ROOT else ROOT
    return NodeDeclared(RUN, node, kind, name, parent, (), "job.py:3", at_s)


def finished(node: NodeId, outcome: Any = "ok", **given: Any) -> NodeFinished:
    return NodeFinished(RUN, node, outcome, 101.5, **given)


def asked(question: str, answer: Generated | None, **given: Any) -> NodeContent:
    link = PromptLink(70, None, (Open("user"), Text(question), Close()))
    return NodeContent(RUN, GEN, (link,), 70, answer=answer, **given)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Transcript]:
    """Writes events and contents in their order; gives the transcript."""

    def written(*items: Event | NodeContent, **config: Any) -> Transcript:
        observer = TranscriptObserver(tmp_path, config=ContentConfig(**config))
        for one in (STARTED, *items):
            if isinstance(one, NodeContent):
                observer.on_content(one)
            else:
                observer.on_events([one])
        observer.close()
        (path,) = tmp_path.glob(f"*{TRANSCRIPT_SUFFIX}")
        return read_transcript(path)

    return written


Write = Callable[..., Transcript]


def test_a_generation_and_a_tool(write: Write) -> None:
    call = CallMade("c1", "look", '{"at":"sea"}')
    answer = Generated("Look.<call>", calls=(call,), content="Look.", thinking="Hm.")
    read = write(
        declared(ROOT, "program", 100.0),
        declared(GEN, "generate"),
        RequestSent(RUN, GEN, 1, "embedded", "tiny", True, 100.2),  # type: ignore[arg-type]
        Scheduled(RUN, GEN, 100.2, "joined", "another asks the same"),
        asked("Where?", answer, tools=("look",)),
        finished(GEN, finish_reason="stop", ledger=Ledger(prompt_tokens=7, output_tokens=3)),
        declared(TOOL, "tool"),
        ToolStarted(RUN, TOOL, 0, 100.3),
        ToolEnded(RUN, TOOL, 0, 100.4, ErrorRecord("OSError", "busy")),
        ToolEnded(RUN, TOOL, 1, 100.5),
        NodeContent(
            RUN, TOOL, call_id="c1", arguments_json='{"at":"sea"}', result=None, has_result=True
        ),
        finished(TOOL),
        NodeContent(RUN, ROOT, arguments={"x": 1}, result="done", has_result=True),
        finished(ROOT),
        ENDED,
    )
    root, gen, called = read.nodes
    assert (root.arguments, root.result, root.parent) == ('{"x":1}', "done", "")
    assert (gen.model, gen.shared, gen.finish_reason) == ("tiny", "joined", "stop")
    assert (gen.prompt_tokens, gen.output_tokens, gen.tools) == (7, 3, ("look",))
    assert (gen.declared_ms, gen.ended_ms, gen.parent) == (100.0, 1500.0, ROOT)
    assert gen.answer is not None
    parts = [(one.type, one.content, one.arguments) for one in gen.answer.parts]
    assert parts == [
        ("reasoning", "Hm.", None),
        ("text", "Look.", None),
        ("tool_call", "", {"at": "sea"}),
    ]
    assert (called.arguments, called.result, called.call_id) == ('{"at":"sea"}', "null", "c1")
    assert [one.error for one in called.attempts] == ["OSError: busy"]
    assert read.end is not None
    assert (read.end.nodes, read.end.left_out, read.end.ended_ms) == (3, 0, 2000.0)


def test_what_failed_has_what_came_before(write: Write) -> None:
    error = ErrorRecord("CheckFailed", "none of 2 answers is even")
    attempts = (FailedAttempt("1", "odd"), FailedAttempt("3", "odd"))
    read = write(
        declared(GEN, "generate"),
        asked("Even?", Generated("3"), attempts=attempts),
        finished(GEN, "failed", error=error),
        declared(TOOL, "tool"),
        ToolEnded(RUN, TOOL, 0, 100.4, ErrorRecord("OSError", "busy")),
        NodeContent(RUN, TOOL, arguments={}),
        finished(TOOL, "failed", error=ErrorRecord("ToolFailed", "look: busy")),
        RunFinished(RUN, "failed", 102.0, error),
    )
    gen, called = read.nodes
    assert [(one.text, one.error) for one in gen.attempts] == [("1", "odd"), ("3", "odd")]
    assert gen.error is not None
    assert (gen.error.type, gen.error.message) == ("CheckFailed", "none of 2 answers is even")
    assert called.attempts == ()  # its one error is that of the node
    assert called.result is None
    assert read.end is not None
    assert read.end.error == gen.error


def test_the_file_is_private_and_beside_the_trace(tmp_path: Path, finance: list[Any]) -> None:
    spans = SpanObserver(folder=tmp_path, environment={})
    with TranscriptObserver(tmp_path) as transcripts:
        for observer in (spans, transcripts):
            observer.on_events(finance)
        path = transcripts.file_of(RUN)
    spans.close()
    assert path is not None
    assert path.name == f"20231114T221320.000Z-root-{RUN}{TRANSCRIPT_SUFFIX}"
    assert path.name.startswith(spans.files[RUN].name[:-37])
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_run_under_way_is_on_disk_already(tmp_path: Path) -> None:
    with TranscriptObserver(tmp_path) as observer:
        observer.on_events([STARTED, declared(GEN, "generate")])
        observer.on_content(asked("Still there?", None))
        observer.on_events([finished(GEN, "cancelled", reason="no need")])
        assert observer.flush()
        (path,) = tmp_path.iterdir()
        read = read_transcript(path)
        assert [node.reason for node in read.nodes] == ["no need"]
        assert read.end is None
        observer.on_events([ENDED])
    assert read_transcript(path).end is not None


def test_a_run_with_the_id_of_one_that_has_ended_has_its_own_file(tmp_path: Path) -> None:
    again = replace(STARTED, unix_ns=STARTED.unix_ns + 1_000_000_000)
    with TranscriptObserver(tmp_path) as observer:
        observer.on_events([STARTED, declared(ROOT, "program"), finished(ROOT), ENDED])
        observer.on_events([again, ENDED])  # before the first one is written
    read = [read_transcript(path) for path in sorted(tmp_path.glob(f"*{TRANSCRIPT_SUFFIX}"))]
    assert [[node.node for node in one.nodes] for one in read] == [[ROOT], []]
    assert all(one.end is not None for one in read)


def test_a_long_text_loses_its_middle(write: Write) -> None:
    answer = Generated("a" * 300 + "b" * 300)
    read = write(
        declared(GEN, "generate"), asked("?", answer), finished(GEN), max_text_characters=100
    )
    (node,) = read.nodes
    assert node.answer is not None
    text = node.answer.parts[0].content
    assert text == "a" * 75 + "\n[... 500 characters left out ...]\n" + "b" * 25
    assert node.cut_characters == 500


def test_a_full_transcript_counts_what_it_leaves_out(write: Write) -> None:
    items: list[Event | NodeContent] = []
    for number in range(30):
        node = NodeId(f"job#0/look#{number}")
        content = NodeContent(RUN, node, arguments={}, result="x" * 100, has_result=True)
        items += [declared(node, "tool"), content, finished(node)]
    read = write(*items, ENDED, max_run_bytes=2000)
    assert read.end is not None
    assert 0 < len(read.nodes) < 10
    assert read.end.left_out == 30 - len(read.nodes)


def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    """The thread is held by the first text, so that the others wait."""
    held: list[int] = []

    def hold(text: str) -> str:
        if not held:
            held.append(1)
            with TranscriptObserver(tmp_path / "other") as other:
                fill(other)
        return text

    def fill(observer: TranscriptObserver) -> None:
        observer.on_events([STARTED])
        for number in range(3):
            node = NodeId(f"job#0/look#{number}")
            content = NodeContent(
                RUN,
                node,
                result=f"text {number}",
                has_result=True,
                characters=MAX_WAITING_CHARACTERS // 2 + 1,
            )
            observer.on_events([declared(node, "tool")])
            observer.on_content(content)
            observer.on_events([finished(node)])
        observer.on_events([ENDED])

    redact_content(hold)
    with TranscriptObserver(tmp_path) as observer:
        fill(observer)
    (path,) = tmp_path.glob(f"*{TRANSCRIPT_SUFFIX}")
    results = [node.result for node in read_transcript(path).nodes]
    assert results == ["text 0", "text 1", "[left out: too much was waiting to be written]"]


def test_what_waits_is_written_when_it_is_much(tmp_path: Path) -> None:
    is_written = threading.Event()

    def note(text: str) -> str:
        is_written.set()
        return text

    redact_content(note)
    with TranscriptObserver(tmp_path, write_every_s=3600.0) as observer:
        observer.on_events([STARTED])
        for number in range(transcript_observer.BATCH_ITEMS // 3 + 1):
            node = NodeId(f"job#0/look#{number}")
            observer.on_events([declared(node, "tool")])
            observer.on_content(NodeContent(RUN, node, result="x", has_result=True))
            observer.on_events([finished(node)])
        assert is_written.wait(10.0)


def test_keys_and_the_users_own_words_are_redacted(write: Write) -> None:
    redact_content(lambda text: text.replace("Ada", "[name]"))
    call = CallMade("c1", "look", '{"at":"Ada","api_key":"abc"}')
    read = write(
        declared(GEN, "generate"),
        asked("Ada, use sk-abcdefgh12 now", Generated("Ada!", calls=(call,), content="Ada!")),
        finished(GEN, "failed", error=ErrorRecord("ValueError", "Ada failed")),
        declared(TOOL, "tool"),
        NodeContent(
            RUN,
            TOOL,
            arguments_json='{"at":"Ada","password":"abc"}',
            result={"who": ["Ada"], "client_secret": "abc"},
            has_result=True,
        ),
        finished(TOOL),
    )
    gen, called = read.nodes
    (turn, _) = read.turns()
    assert turn.messages[0].parts[0].content == "[name], use [redacted] now"
    assert gen.answer is not None
    assert gen.answer.parts[0].content == "[name]!"
    assert gen.answer.parts[1].arguments == {"at": "[name]", "api_key": "[redacted]"}
    assert gen.error is not None
    assert gen.error.message == "[name] failed"
    assert json.loads(called.arguments or "") == {"at": "[name]", "password": "[redacted]"}
    assert json.loads(called.result or "") == {"who": ["[name]"], "client_secret": "[redacted]"}


def test_text_that_no_file_can_hold_is_replaced(write: Write) -> None:
    read = write(declared(GEN, "generate"), asked("\ud800?", Generated("\x00")), finished(GEN))
    (turn,) = read.turns()
    assert turn.messages[0].parts[0].content == "??"


def test_steps_of_engines_wake_nobody(tmp_path: Path) -> None:
    with TranscriptObserver(tmp_path) as observer:
        observer.on_events([StepDone(None, (), ())])
        assert observer.flush()
    assert list(tmp_path.iterdir()) == []


def test_outside_the_command_line_they_are_kept_where_asked(tmp_path: Path) -> None:
    place = {"XDG_STATE_HOME": str(tmp_path)}
    assert transcripts_of(place, ContentConfig()) is None
    assert transcripts_of(place, ContentConfig("off")) is None
    observer = transcripts_of(place, ContentConfig("transcript"))
    assert observer is not None
    observer.on_events([STARTED, ENDED])
    path = observer.file_of(RUN)
    assert path is not None
    observer.close()
    assert path.parent == runs_folder(place)


@tool(effects="read")
async def look(text: str) -> str:
    """Look."""
    return f"{text} canary-result"


@program
async def talk(text: str) -> str:
    base = chat(system="canary-system").user("canary-prompt")
    plan = base.calls(look, name="plan")
    seen = [call.start() async for call in plan]
    known = plan.ctx.results(seen)
    said = [known.user(f"{one}?").generate(name="said") for one in range(20)]
    await gather(*said)
    return await look(text)


CANARIES = {f"canary-{one}" for one in ("system", "prompt", "result", "answer", "argument")}


def test_nothing_said_is_in_the_trace_and_all_is_in_the_transcript(tmp_path: Path) -> None:
    from agentrt.testing import calls_text

    def script(request: Any, prompt: str) -> str:
        is_plan = "plan" in request.node_id
        return calls_text(("look", {"text": "canary-argument"})) if is_plan else "canary-answer"

    spans = SpanObserver(folder=tmp_path, environment={})
    transcripts = TranscriptObserver(tmp_path)
    clock = LoopClock()

    async def main() -> None:
        backends: Any = {"default": (ScriptedBackend(script, clock=clock), None)}
        async with Runtime(backends, clock=clock, observers=[spans, transcripts]) as runtime:
            await runtime.run(talk, "canary-argument")

    run_virtual(main)
    spans.close()
    transcripts.close()
    (trace,), (transcript,) = tmp_path.glob("*.json"), tmp_path.glob(f"*{TRANSCRIPT_SUFFIX}")
    text = trace.read_text("utf-8")
    assert {word for word in CANARIES if word in text} == set()
    text = transcript.read_text("utf-8")
    assert {word for word in CANARIES if word in text} == CANARIES
    assert text.count("canary-prompt") == 1, "what prompts share is written once"
    turns = {
        turn.node.node.rpartition("/")[2]: turn for turn in read_transcript(transcript).turns()
    }
    assert len(turns) == 24
    assert [one.role for one in turns["said#0"].messages] == ["tool", "user"]
    assert [one.role for one in turns["said#19"].messages] == ["user"]
    assert turns["said#19"].continues == "talk#0/plan#0"
