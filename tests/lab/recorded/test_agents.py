"""Programs of recorded sessions: spans of turns, with the answers and results that they had."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.segments import ToolSchema
from agentrt.lab.recorded.agents import react, session_programs
from agentrt.lab.recorded.codebook import Codebook
from agentrt.lab.recorded.program import RecordedProgram
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.workloads.agent_session import AgentCall, AgentMessage, AgentSession, AgentTurn
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.trace import OutputOf, TraceResult, parts

TOOLS = (ToolSchema("look", "Look at a file.", {"type": "object"}),)


def session(turns: int) -> AgentSession:
    """A session in which each prompt ends with a line that the next one does not have."""
    history = [AgentMessage("system", "Be short."), AgentMessage("user", "Look at the files.")]
    found = []
    for at in range(turns):
        told = AgentMessage("user", f"Turn {at} of {turns}.")
        found.append(AgentTurn((*history, told), TOOLS, 8, 0.1))
        call = AgentCall(f"c{at}", "look", f'{{"path":"/file{at}"}}')
        history += [
            AgentMessage("assistant", f"I read file {at}.", (call,)),
            AgentMessage("tool", f"content of file {at}", call_id=f"c{at}"),
        ]
    return AgentSession("one", tuple(found))


@pytest.fixture
def book() -> Codebook:
    return Codebook()


def source(shape: str, book: Codebook) -> RecordSource:
    return RecordSource(shape, Path("none"), book, Scale())


def prompt(one: RecordedProgram, name: str, book: Codebook) -> Iterator[str]:
    """Texts of the prompt of a call."""
    (call,) = (call for call in one.trace.calls() if call.name == name)
    for part in parts(call):
        if isinstance(part, OutputOf):
            text = one.outputs[part.call]
        elif isinstance(part, TraceResult):
            text = one.texts[f"{one.trace.name}/{part.tool}"]
        else:
            text = one.texts[part.key]
        yield "".join(map(book.unit, text.units))


def test_a_session_is_cut_into_spans_that_go_on_from_its_history(book: Codebook) -> None:
    first, second = session_programs(source("coding-agent", book), [session(6)], 3)
    assert [call.name for call in first.trace.calls()] == ["act0", "act1", "act2"]
    assert [call.name for call in second.trace.calls()] == [
        "act0",
        "act1",
    ]  # the last has no answer
    system, asked, *said, told = prompt(first, "act2", book)
    assert system.startswith("Be short.\n[")
    assert '"name": "look"' in system
    assert asked == "Look at the files."
    call = '<call>{"name":"look","arguments":{"path":"/file%d"}}</call>'
    assert said == [
        *(f"I read file 0.\n{call % 0}", "content of file 0"),
        *(f"I read file 1.\n{call % 1}", "content of file 1"),
    ]
    assert told == "Turn 2 of 6."
    later = list(prompt(second, "act0", book))
    assert later[: len(said) + 2] == [system, asked, *said]
    assert later[-1] == "Turn 3 of 6."
    assert first.trace.calls()[0].forced_tokens == 0


def test_spans_of_sessions_take_turns(book: Codebook) -> None:
    sessions = [session(7), session(4)]
    programs = list(islice(session_programs(source("coding-agent", book), sessions, 3), 9))
    assert [len(one.trace.calls()) for one in programs] == [3, 3, 3]
    assert len({one.trace.name for one in programs}) == 3


def test_the_frame_of_a_call_is_given_in_a_react_loop(book: Codebook) -> None:
    (one,) = session_programs(source("react", book), [session(2)], 3)
    text = one.outputs["act0"]
    free = [unit for unit, given in zip(text.units, text.given, strict=True) if not given]
    assert "".join(map(book.unit, free)) == 'I read file 0.\n<call>{"path":"/file0"}'


def test_missing_recordings_are_told(
    book: Codebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_SOURCES", str(tmp_path))
    with pytest.raises(UsageError, match="make recordings"):
        next(react(source("react", book)))
