"""What a person answered is part of a recording."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from agentrt import DeadlineExceeded, UsageError, ask, chat, gather, limits, program
from agentrt.recording import RunRecording, read_recording
from agentrt.runtime import PersonQuestion
from agentrt.testing import (
    LoopClock,
    PlayedRun,
    RecordedRuntime,
    RecordingMismatch,
    ScriptedRuntime,
)


class Place(BaseModel):
    city: str
    floor: int = 0


@program
async def order(wish: str = "How many?") -> list[Any]:
    number = await ask(int, wish)
    note = await chat().user("Note ", str(number)).generate(name="note")
    rest = await gather(ask(Place, "Where?"), ask(date, "When?"), ask(str, "Who?"))
    return [number, note, *rest, await ask(Literal["yes", "no"], "Send it?")]


async def person(question: PersonQuestion) -> Any:
    """Takes a second a word."""
    await anyio.sleep(float(len(question.text.split())))
    answers = {
        "How many?": "3",
        "Where?": Place(city="Oslo", floor=2),
        "When?": "2024-02-29",
        "Who?": "17",
        "Send it?": "yes",
    }
    return answers[question.text]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def record(path: Path) -> Callable[..., PlayedRun]:
    def play(of: Any, *args: Any, on_ask: Any = person) -> PlayedRun:
        recording = RunRecording(path, LoopClock())
        return ScriptedRuntime({"note": "three"}, observers=[recording], on_ask=on_ask).run(
            of, *args
        )

    return play


def test_answers_come_again_with_their_types_and_times(
    record: Callable[..., PlayedRun], path: Path
) -> None:
    before = record(order)
    after = RecordedRuntime(path).run(order)
    expected = [3, "three", Place(city="Oslo", floor=2), date(2024, 2, 29), "17", "yes"]
    assert before.value == after.value == expected
    assert after.compound_s == pytest.approx(before.compound_s)
    assert read_recording(path).questions[0].question == "How many?"


def test_an_answer_of_the_test_goes_first(record: Callable[..., PlayedRun], path: Path) -> None:
    record(order)

    async def other(question: PersonQuestion) -> Any:
        return "no" if question.text == "Send it?" else await person(question)

    assert RecordedRuntime(path, on_ask=other).run(order).value[-1] == "no"


def test_another_question_fails_the_test_even_if_the_program_goes_on(
    record: Callable[..., PlayedRun], path: Path
) -> None:
    @program
    async def calm(question: str) -> str:
        try:
            return await ask(str, question)
        except UsageError:
            return "calm"

    record(calm, "Who?")
    assert RecordedRuntime(path).run(calm, "Who?").value == "17"
    with pytest.raises(RecordingMismatch, match=r"(?s)nobody was asked 'Whose\?'.*\n  Who\?"):
        RecordedRuntime(path).run(calm, "Whose?")


def test_an_answer_that_was_none_is_none_again(
    record: Callable[..., PlayedRun], path: Path
) -> None:
    with pytest.raises(UsageError, match="'many' is no answer"):
        record(order, on_ask=lambda question: "many")
    with pytest.raises(UsageError, match="'many' is no answer"):
        RecordedRuntime(path).run(order)


def test_a_question_that_nobody_answered_in_time(
    record: Callable[..., PlayedRun], path: Path
) -> None:
    @program
    async def hurried(seconds: float) -> str:
        async with limits(seconds=seconds):
            return await ask(str, "Who are you? Tell all.")

    with pytest.raises(DeadlineExceeded):
        record(hurried, 2.0)
    with pytest.raises(DeadlineExceeded):
        RecordedRuntime(path).run(hurried, 2.0)
    with pytest.raises(RecordingMismatch, match=r"had no answer in the recording after 2\.000 s"):
        RecordedRuntime(path).run(hurried, 100.0)


def test_a_changed_type_is_told(record: Callable[..., PlayedRun], path: Path) -> None:
    @program
    async def typed(form: type) -> Any:
        return await ask(form, "Who?")

    record(typed, str)
    assert RecordedRuntime(path).run(typed, int).value == 17
    with pytest.raises(RecordingMismatch, match="the recorded answer to 'Who"):
        RecordedRuntime(path).run(typed, Place)
