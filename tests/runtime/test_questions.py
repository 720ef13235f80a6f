"""Questions to a person park the program in place."""

from typing import Any, Literal

import anyio
import pytest

from agentrt import DeadlineExceeded, NodeCancelled, UsageError, ask, limits, program
from agentrt.protocol.events import NodeDeclared
from agentrt.runtime import PersonQuestion, RunOptions


@program
async def sends() -> str:
    log.append("before")
    answer = await ask(Literal["yes", "no"], "Send it?")
    log.append("after")
    return answer


log: list[str] = []


def test_an_answer_comes_back_typed(bench: Any) -> None:
    @program
    async def counts() -> int:
        return await ask(int, "How many?") + 1

    asked: list[PersonQuestion] = []

    def on_ask(question: PersonQuestion) -> str:
        asked.append(question)
        return "41"

    rig = bench([])
    assert rig.run(counts, options=RunOptions(on_ask=on_ask)) == 42
    assert (asked[0].text, asked[0].form, asked[0].node_id) == ("How many?", int, "counts#0/ask#0")
    assert rig.recorder.of(NodeDeclared, "ask")[0].kind == "ask"


def test_the_program_waits_and_runs_nothing_twice(bench: Any) -> None:
    log.clear()

    async def on_ask(question: PersonQuestion) -> str:
        await anyio.sleep(3600.0)
        return "yes"

    assert bench([]).run(sends, options=RunOptions(on_ask=on_ask)) == "yes"
    assert log == ["before", "after"]


def test_a_wrong_answer_is_told(bench: Any) -> None:
    with pytest.raises(UsageError, match="'maybe' is no answer to 'Send it") as e:
        bench([]).run(sends, options=RunOptions(on_ask=lambda question: "maybe"))
    assert "test_questions.py:" in e.value.where


def test_nobody_to_answer(bench: Any) -> None:
    with pytest.raises(UsageError, match="nobody answers"):
        bench([]).run(sends)


def test_a_question_can_be_cancelled_and_can_time_out(bench: Any) -> None:
    async def never(question: PersonQuestion) -> str:
        await anyio.sleep_forever()
        return "never"

    @program
    async def gives_up() -> str:
        async with limits(seconds=5.0):
            return await ask(str, "?")

    @program
    async def cancels() -> str:
        node = ask(str, "?")
        await anyio.sleep(1.0)
        node.cancel("never mind")
        with pytest.raises(NodeCancelled, match="never mind"):
            await node
        return "done"

    options = RunOptions(on_ask=never)
    with pytest.raises(DeadlineExceeded):
        bench([]).run(gives_up, options=options)
    assert bench([]).run(cancels, options=options) == "done"
