"""Transcripts are read under their schema, and tell what is new with each node."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis.transcript import SCHEMA, Transcript
from agentrt.analysis.transcript_reading import read_transcript
from agentrt.base.errors import UsageError

RUN = {"record": "run", "schema": SCHEMA, "run_id": "00a1", "program": "job"}
END = {"record": "end", "outcome": "ok", "ended_ms": 9.5, "nodes": 3}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def prompt(number: int, after: int | None = None, **given: Any) -> dict[str, Any]:
    return {"record": "prompt", "prompt": number, "after": after} | given


def node(number: int, **given: Any) -> dict[str, Any]:
    path = f"job#0/ask#{number}"
    return {
        "record": "node", "node": path, "number": number, "kind": "generate", "name": "ask"
    } | given  # fmt: skip


LINES = [
    RUN,
    prompt(0, messages=[said("system", "Be brief.")]),
    prompt(1, 0, messages=[said("user", "One?")]),
    node(2, prompt=1),
    prompt(2, 0, messages=[said("user", "Two?")]),
    node(1, prompt=2),
    prompt(3, 1, answer_of="job#0/ask#2"),
    prompt(4, 3, messages=[said("user", "Why?")]),
    node(3, prompt=4),
    END,
]


def written(folder: Path, lines: list[dict[str, Any]], tail: str = "") -> Path:
    path = folder / "a.transcript.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, "utf-8")
    return path


def texts(transcript: Transcript) -> list[tuple[str, list[str], str, str]]:
    return [
        (
            turn.node.node[-1],
            [part.content for message in turn.messages for part in message.parts],
            turn.continues[-1:],
            turn.begins_as[-1:],
        )
        for turn in transcript.turns()
    ]


def test_each_message_is_new_once_and_in_the_order_of_the_program(tmp_path: Path) -> None:
    read = read_transcript(written(tmp_path, LINES))
    assert texts(read) == [
        ("1", ["Be brief.", "Two?"], "", ""),
        ("2", ["One?"], "", "1"),
        ("3", ["Why?"], "2", "2"),
    ]
    assert [one.prompt for one in read.prompt_of(read.nodes[2])] == [0, 1, 3, 4]
    assert read.end is not None
    assert read.end.ended_ms == 9.5


def test_a_killed_run_leaves_its_whole_lines(tmp_path: Path) -> None:
    read = read_transcript(written(tmp_path, LINES[:4], tail='{"record":"nod'))
    assert texts(read) == [("2", ["Be brief.", "One?"], "", "")]
    assert read.end is None


WRONG: list[tuple[list[dict[str, Any]], str]] = [
    ([], "has no line"),
    ([{"schema": "agentrt.transcript/2"}], "has the schema 'agentrt.transcript/2'"),
    ([{"run_id": "a"}], "names no schema"),
    ([RUN | {"extra": 1}], ":1: run.extra"),
    ([RUN, node(1) | {"number": "1"}], ":2: node.number: Input should be a valid integer"),
    ([RUN, node(1, prompt=7)], ":2: prompt 7 is missing"),
    ([RUN, prompt(0, 5)], ":2: prompt 0 has no prompt before it"),
    ([RUN, prompt(0), prompt(0)], ":3: prompt 0 is there already"),
    ([RUN, prompt(0, messages=[{"role": "king"}])], ":2: prompt.messages.0.role"),
    ([RUN, END, node(1)], ":3: there is a line behind the end"),
    ([RUN, RUN], ":2: a second run begins"),
    ([RUN, {"record": "poem"}], ":2: Input tag 'poem'"),
]


@pytest.mark.parametrize(("lines", "what"), WRONG, ids=[what for _, what in WRONG])
def test_what_breaks_the_schema_is_told_with_its_line(
    tmp_path: Path, lines: list[dict[str, Any]], what: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_transcript(written(tmp_path, lines))
    assert what in refused.value.message
    assert refused.value.hint


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_transcript(tmp_path / "absent")
