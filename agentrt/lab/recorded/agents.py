"""Agents: spans of turns of recorded sessions, with the answers and results that they had.

A session of forty turns is several programs of a few turns each, which go on from the session's
history as it was. Source: the recordings of agentperf-local, by Artificial Analysis (Apache-2.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise

from agentrt.base.errors import UsageError
from agentrt.lab.recorded.program import OutputPart, RecordedProgram, RecordedSketch
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.sessions.recorded import read_recordings
from agentrt.lab.sessions.wheel import wheel_path
from agentrt.lab.workloads.agent_session import (
    AgentMessage,
    AgentSession,
    AgentTurn,
    common_messages,
    wire_tool,
)
from agentrt.lab.workloads.sketch import assistant, system, user
from agentrt.lab.workloads.trace import Message

_CODING_TURNS, _REACT_TURNS = 10, 5  # of a program
_BEGIN, _END = "\n<call>", "</call>"


def coding_agent(source: RecordSource) -> Iterator[RecordedProgram]:
    """Spans of sessions that repair a repository, which are named as SWE-bench names its tasks."""
    return session_programs(source, [one for one in _sessions() if "__" in one.name], _CODING_TURNS)


def react(source: RecordSource) -> Iterator[RecordedProgram]:
    """Spans of all other sessions; the form of a call gives its frame and the names in it."""
    return session_programs(
        source, [one for one in _sessions() if "__" not in one.name], _REACT_TURNS
    )


def _sessions() -> list[AgentSession]:
    path = wheel_path()
    if not path.is_file():
        raise UsageError(f"there are no recorded sessions at {path}", hint="Run `make recordings`")
    return [session for recording in read_recordings(path) for session in recording.sessions]


def session_programs(
    source: RecordSource, sessions: Sequence[AgentSession], turns: int
) -> Iterator[RecordedProgram]:
    """The first spans of all sessions, then the second ones, and so on."""
    number = count()
    for at in count():
        spans = [(one, one.turns[at * turns : (at + 1) * turns + 1]) for one in sessions]
        spans = [(session, span) for session, span in spans if len(span) > 1]
        if not spans:
            return
        for _, span in spans:
            program = _program(source.sketch(next(number)), span, held=source.shape == "react")
            if program is not None:
                yield program


def _program(
    sketch: RecordedSketch, turns: Sequence[AgentTurn], *, held: bool
) -> RecordedProgram | None:
    """One program; None if the second prompt of the span does not go on with an answer.

    Args:
        sketch: The sketch to fill.
        turns: The turns, and one more, whose prompt has the last answer.
        held: Whether calls are held to a form.
    """
    chat = _history(sketch, turns[0])
    name = ""
    for at, (turn, later) in enumerate(pairwise(turns)):
        known = common_messages(turn.messages, later.messages)  # what follows was for this turn
        if known == len(later.messages) or later.messages[known].role != "assistant":
            break
        name = f"act{at}"
        parts = list(_answer(later.messages[known], turn, held=held))
        said = sketch.call(name, chat, parts, site="act")
        chat = [*chat[:known], assistant(said)]
        for number, message in enumerate(later.messages[known + 1 :]):
            if message.role == "tool":
                chat.append(user(sketch.tool(f"tool{at}_{number}", name, message.text or " ")))
            else:
                chat.append(_known(sketch, message))
    return sketch.program([name]) if name else None


def _history(sketch: RecordedSketch, turn: AgentTurn) -> list[Message]:
    """All messages of a turn; the first one lists the tools."""
    listed = [wire_tool(tool) for tool in turn.tools]
    first, *others = turn.messages
    if listed:
        first = replace(first, text=f"{first.text}\n{json.dumps(listed)}")
    return [_known(sketch, message) for message in (first, *others)]


def _known(sketch: RecordedSketch, message: AgentMessage) -> Message:
    """A message of the history."""
    match message.role:
        case "system":
            return system(sketch.text(message.text))
        case "assistant":
            return assistant(sketch.text("".join(one.text for one in _answer(message))))
        case _:
            return user(sketch.text(message.text or " "))


def _answer(
    message: AgentMessage, turn: AgentTurn | None = None, *, held: bool = False
) -> Iterator[OutputPart]:
    """An answer: text, then calls as JSON in marks; the mark itself is a free choice."""
    one_tool = turn is not None and len(turn.tools) == 1
    if message.text:
        yield OutputPart(message.text)
    for call in message.calls:
        yield OutputPart(_BEGIN)
        yield OutputPart('{"name":"', given=held)
        yield OutputPart(call.name, given=held and one_tool)
        yield OutputPart('","arguments":', given=held)
        yield OutputPart(call.arguments_json)
        yield OutputPart("}" + _END, given=held)
    if not message.text and not message.calls:
        yield OutputPart(" ")
