"""Recorded sessions are read from a wheel as they stand, or refused with their place."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.sessions.recorded import read_recordings
from agentrt.lab.sessions.wheel import DIGEST, check_digest, recorded_wheel, wheel_path
from agentrt.lab.workloads.agent_session import common_messages, wire_message, wire_tool
from tests.lab.sessions.made_wheel import TOOL, growing, made_wheel

needs_recordings = pytest.mark.skipif(
    not wheel_path().is_file(), reason="no recorded sessions: run `make recordings`"
)


def test_a_recording_has_prompts_lengths_tools_and_times(tmp_path: Path) -> None:
    (found,) = read_recordings(made_wheel(tmp_path / "made.whl"))
    assert found.name == "made-v1"
    garden, drift = found.sessions
    assert (garden.name, drift.name) == ("garden", "drift")
    assert [turn.output_tokens for turn in garden.turns] == [6, 7, 8]
    assert [turn.wait_s for turn in garden.turns] == [0.02] * 3
    assert [len(turn.tools) for turn in garden.turns] == [1, 1, 0]
    assert {turn.recorded_prompt_tokens for turn in garden.turns} == {9}
    assert {turn.recorded_prompt_tokens for turn in drift.turns} == {0}


def test_messages_and_tools_are_sent_as_they_were_recorded(tmp_path: Path) -> None:
    (found,) = read_recordings(made_wheel(tmp_path / "made.whl"))
    turn = found.sessions[0].turns[1]
    recorded = growing()[1]["messages"]
    for message in recorded:
        for call in message.get("tool_calls", ()):
            call.pop("index")  # of a stream's chunk, not of a message
    assert [wire_message(message) for message in turn.messages] == recorded
    assert [wire_tool(tool) for tool in turn.tools] == [TOOL]


def test_the_recorded_answer_stands_in_the_next_prompt(tmp_path: Path) -> None:
    (found,) = read_recordings(made_wheel(tmp_path / "made.whl"))
    garden, drift = found.sessions
    answers = [garden.answer(turn) for turn in range(3)]
    assert [answer and answer.calls[0].call_id for answer in answers] == ["call_0", "call_1", None]
    behind_the_counter = drift.answer(0)
    assert behind_the_counter is not None
    assert behind_the_counter.calls[0].call_id == "call_7"
    assert common_messages(drift.turns[0].messages, drift.turns[1].messages) == 2


def test_a_salted_session_begins_otherwise_in_each_turn(tmp_path: Path) -> None:
    (found,) = read_recordings(made_wheel(tmp_path / "made.whl"))
    garden = found.sessions[0]
    salted = garden.salted("agent 2\n")
    for turn, plain in zip(salted.turns, garden.turns, strict=True):
        assert turn.messages[0].text == f"agent 2\n{plain.messages[0].text}"
        assert turn.messages[1:] == plain.messages[1:]
    assert garden.salted("") is garden


def test_a_shortened_session_keeps_its_prompts(tmp_path: Path) -> None:
    (found,) = read_recordings(made_wheel(tmp_path / "made.whl"))
    garden = found.sessions[0]
    short = garden.shortened(most_turns=2, most_output_tokens=6)
    assert [turn.output_tokens for turn in short.turns] == [6, 6]
    assert [turn.messages for turn in short.turns] == [turn.messages for turn in garden.turns[:2]]
    assert garden.shortened(0, 0) == garden


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"target_output_tokens": None}, r"garden\.jsonl:1: target_output_tokens: .*integer"),
    ({"messages": []}, r":1: messages: .*at least 1"),
    ({"messages": [{"role": "critic"}]}, r":1: messages\.0\.role: "),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, r"messages\.0\.content"),
    ({"version": 2}, r":1: version: "),
    ({"tools": [{"type": "browser"}]}, r":1: tools\.0\.type"),
    ({"simulated_tool_delay_ms_after": -1}, "simulated_tool_delay_ms_after"),
    ({"task_id": "other"}, r":1: a turn of 'other'"),
    ({"recorded_tool_calls_after": []}, "1 tool calls, its manifest has 2"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_what_is_not_as_expected_is_named(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = made_wheel(tmp_path / "made.whl")
    rows = growing()
    rows[0] |= change
    other = made_wheel(tmp_path / "other.whl", {"garden": rows})
    broken = tmp_path / "broken.whl"
    trace = "made/data/replays/made-v1/traces/garden.jsonl"
    with (
        zipfile.ZipFile(path) as whole,
        zipfile.ZipFile(other) as wrong,
        zipfile.ZipFile(broken, "w") as written,
    ):
        for name in whole.namelist():
            written.writestr(name, (wrong if name == trace else whole).read(name))
    with pytest.raises(UsageError, match=said):
        read_recordings(broken)


def test_files_that_are_no_recordings_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.whl"
    text.write_text("text")
    with pytest.raises(UsageError, match="is no wheel"):
        read_recordings(text)
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as files:
        files.writestr("made/__init__.py", "")
    with pytest.raises(UsageError, match="has no recorded tasks"):
        read_recordings(empty)
    with pytest.raises(UsageError, match="there is no wheel"):
        recorded_wheel(tmp_path / "none.whl")


def test_another_wheel_under_the_same_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=DIGEST):
        check_digest(made_wheel(tmp_path / "made.whl"))


@needs_recordings
def test_the_published_recordings_are_read() -> None:
    mini, whole = read_recordings(recorded_wheel())
    assert [len(one.turns) for one in mini.sessions] == [6]
    assert len(whole.sessions) == 8
    turns = [turn for one in whole.sessions for turn in one.turns]
    assert len(turns) == 168
    assert sum(turn.output_tokens for turn in turns) == 30_883
    assert max(turn.recorded_prompt_tokens for turn in turns) == 56_000
    answered = [
        one.answer(turn) is not None for one in whole.sessions for turn in range(len(one.turns))
    ]
    assert sum(answered) == 168 - 8


@needs_recordings
def test_three_recorded_harnesses_take_back_a_counter() -> None:
    whole = read_recordings(recorded_wheel())[-1]
    drifts = [
        one.name
        for one in whole.sessions
        if common_messages(one.turns[0].messages, one.turns[1].messages)
        < len(one.turns[0].messages)
    ]
    assert len(drifts) == 3
