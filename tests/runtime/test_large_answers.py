"""Large answers are read in a worker thread: with the same values, retries, errors and ends."""

import asyncio
import json
import threading
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from agentrt import CheckFailed, NodeCancelled, chat, program
from agentrt.analysis import RunRecord
from agentrt.analysis.usage import usage
from agentrt.runtime.requests.large_answers import LARGE_ANSWER_CHARACTERS
from tests.runtime.watched_threads import WATCH, Watch

ASK = chat(system="Be brief.").user("Which?")
ROOM = 2 * LARGE_ANSWER_CHARACTERS


class Note(BaseModel):
    text: str
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        WATCH.get().note()
        if number % 2:
            raise ValueError("must be even")
        return number


def words(characters: int = LARGE_ANSWER_CHARACTERS) -> str:
    return " ".join(map(str, range(characters)))[:characters]


def written(number: int, characters: int = LARGE_ANSWER_CHARACTERS) -> str:
    note = {"text": words(characters), "number": number}
    return json.dumps(note, separators=(",", ":"))


@program
async def noted(retries: int = 0) -> Any:
    gen = ASK.generate(Note, check=True, retries=retries, max_tokens=ROOM, name="note")
    value = await gen
    return value, "".join([piece async for piece in gen.stream()])


@pytest.mark.parametrize("characters", [10, LARGE_ANSWER_CHARACTERS])
def test_only_a_large_answer_is_read_off_the_loop(
    bench: Any, watch: Watch, characters: int
) -> None:
    text = written(2, characters)
    value, said = bench([text]).run(noted)
    assert (value, said) == (Note.model_construct(text=words(characters), number=2), text)
    [thread] = watch.threads
    assert (thread is threading.main_thread()) == (characters == 10)


def test_a_large_answer_that_fails_its_check_is_given_again(bench: Any, watch: Watch) -> None:
    rig = bench([written(1), written(4)])
    value, said = rig.run(noted, retries=1)
    assert (value.number, said) == (4, written(4))
    assert "must be even" in list(rig.backend.seen.prompts.values())[1]
    assert threading.main_thread() not in watch.threads


def test_the_last_failure_is_the_error(bench: Any, watch: Watch) -> None:
    with pytest.raises(CheckFailed, match="must be even") as caught:
        bench([written(1), written(3)]).run(noted, retries=1)
    assert [len(one.text) for one in caught.value.attempts] == [len(written(1))] * 2
    assert caught.value.where.startswith("tests/runtime/test_large_answers.py:")


def test_a_node_is_cancelled_while_its_answer_is_read(bench: Any, watch: Watch) -> None:
    """At once, with the tokens that were spent on it."""
    watch.gate.clear()

    @program
    async def cut() -> Any:
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        watch.on_note = partial(loop.call_soon_threadsafe, begun.set)
        asked = ASK.generate(Note, check=True, max_tokens=ROOM, name="note")
        await begun.wait()
        asked.cancel("no longer needed")
        with pytest.raises(NodeCancelled, match="no longer needed"):
            await asked
        return watch.gate.is_set()

    rig = bench([written(2)])
    assert rig.run(cut) is False
    record = RunRecord()
    record.on_events(rig.recorder.events)
    assert usage(record).output_tokens > 0
