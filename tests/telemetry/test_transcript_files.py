"""Files of transcripts: when they are written, and what ends them."""

import threading
from pathlib import Path

from agentrt import redact_content
from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import NodeDeclared, NodeFinished, RunFinished, RunStarted
from agentrt.protocol.node_content import NodeContent
from agentrt.telemetry import TranscriptObserver
from agentrt.telemetry.run_files import TRANSCRIPT_SUFFIX

RUN = RunId("00000000000000a1")
TOOL = NodeId("root#0/look#0")
STARTED = RunStarted(RUN, "root", "job.py:root", 100.0, 1_700_000_000_000_000_000)
DECLARED = NodeDeclared(RUN, TOOL, "tool", "look", None, (), "job.py:3", 100.0)
FINISHED = NodeFinished(RUN, TOOL, "ok", 101.0)
ENDED = RunFinished(RUN, "ok", 102.0)


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    with TranscriptObserver(tmp_path / "file", warn=told.append) as observer:
        observer.on_events([STARTED, ENDED])
        assert observer.file_of(RUN) is None
    assert len(told) == 1
    assert "the transcript of run 00000000000000a1 is lost" in told[0]


def test_slow_redaction_keeps_nothing_from_the_disk(tmp_path: Path) -> None:
    all_wait, on_disk = threading.Event(), list[bool]()

    @redact_content
    def slow(text: str) -> str:
        all_wait.wait()
        if text == "last":
            on_disk.append(any(file.stat().st_size for file in tmp_path.iterdir()))
        return text

    try:
        with TranscriptObserver(tmp_path, write_every_s=0.0) as observer:
            observer.on_events([STARTED])
            for question in ("first", *["next"] * 40, "last"):
                observer.on_events([DECLARED])
                observer.on_content(NodeContent(RUN, TOOL, arguments={"text": question}))
                observer.on_events([FINISHED])
            observer.on_events([ENDED])
            all_wait.set()
    finally:
        redact_content(None)
    assert on_disk == [True]


def test_the_oldest_transcripts_go_and_traces_stay(tmp_path: Path) -> None:
    for number in range(201):
        name = f"20221114T221320.{number:03}Z-job-{number:016x}{TRANSCRIPT_SUFFIX}"
        (tmp_path / name).write_text("")
    (tmp_path / f"20221114T221320.000Z-job-{0:032x}.json").write_text("")
    with TranscriptObserver(tmp_path) as observer:
        observer.on_events([STARTED, ENDED])
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert len(kept) == 201
    assert kept[0].endswith(".json")
    assert kept[1].startswith("20221114T221320.002Z")
