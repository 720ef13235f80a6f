"""Reads recorded tasks of agents from a wheel: manifests, and one line of JSON a turn.

A recording holds each prompt as it was sent, the length of its answer, and the times of its tools.
The recorded answer itself stands in the next prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar
from zipfile import BadZipFile, ZipFile

from pydantic import BaseModel, Field, ValidationError

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema
from agentrt.lab.workloads.agent_session import (
    AgentCall,
    AgentMessage,
    AgentSession,
    AgentTurn,
)

_REPLAYS = "/data/replays/"
FormT = TypeVar("FormT", bound=BaseModel)

_HINT = "Take the wheel as it was published"


@record
class Recording:
    """A set of recorded tasks.

    Attributes:
        name: Name of its folder, such as `aa-mini-v1`.
        sessions: The tasks.
    """

    name: str
    sessions: tuple[AgentSession, ...]


class _FunctionLine(BaseModel):
    name: str
    arguments: str


class _CallLine(BaseModel):
    id: str
    type: Literal["function"]
    function: _FunctionLine


class _MessageLine(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[_CallLine] | None = None
    tool_call_id: str = ""


class _ToolFunction(BaseModel, extra="forbid"):
    name: str
    description: str = ""
    parameters: dict[str, Any]


class _ToolLine(BaseModel, extra="forbid"):
    type: Literal["function"]
    function: _ToolFunction


class _Row(BaseModel):
    version: Literal[1]
    task_id: str
    messages: list[_MessageLine] = Field(min_length=1)
    tools: list[_ToolLine] = []
    target_output_tokens: int = Field(ge=1)
    recorded_prompt_tokens: int = Field(0, ge=0)
    simulated_tool_delay_ms_after: float = Field(ge=0, allow_inf_nan=False)
    recorded_tool_calls_after: list[dict[str, Any]] = []


class _Task(BaseModel):
    task_id: str
    trace: str
    model_calls: int
    tool_calls: int


class _Manifest(BaseModel):
    version: Literal[1]
    tasks: list[_Task] = Field(min_length=1)


def read_recordings(wheel: Path) -> tuple[Recording, ...]:
    """All recordings of a wheel, the smallest first.

    Args:
        wheel: Path of the wheel. Nothing of it is run.

    Raises:
        UsageError: The wheel cannot be read, or holds something else.
    """
    try:
        with ZipFile(wheel) as files:
            manifests = _manifests(files)
            found = [_recording(wheel, files, path) for path in manifests]
    except (OSError, BadZipFile) as error:
        raise UsageError(f"{wheel} is no wheel: {error}", hint=_HINT) from error
    if not found:
        raise UsageError(f"{wheel} has no recorded tasks", hint=_HINT)
    return tuple(sorted(found, key=lambda one: sum(len(each.turns) for each in one.sessions)))


def _manifests(files: ZipFile) -> list[str]:
    """The first manifest of each folder: those of several machines differ in container images."""
    found: dict[str, str] = {}
    for path in sorted(files.namelist()):
        folder, _, name = path.rpartition("/")
        if _REPLAYS in path and name.startswith("manifest") and name.endswith(".json"):
            found.setdefault(folder, path)
    return list(found.values())


def _recording(wheel: Path, files: ZipFile, manifest: str) -> Recording:
    folder = manifest.rpartition("/")[0]
    tasks = _read(_Manifest, files.read(manifest), f"{wheel.name}: {manifest}").tasks
    sessions = tuple(_session(wheel, files, folder, task) for task in tasks)
    return Recording(folder.rpartition("/")[2], sessions)


def _session(wheel: Path, files: ZipFile, folder: str, task: _Task) -> AgentSession:
    path = f"{folder}/{task.trace}"
    place = f"{wheel.name}: {path}"
    try:
        lines = files.read(path).splitlines()
    except KeyError:
        raise UsageError(f"{place}: there is no such file", hint=_HINT) from None
    rows = [
        _read(_Row, line, f"{place}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    for number, row in enumerate(rows, 1):
        if row.task_id != task.task_id:
            raise UsageError(f"{place}:{number}: a turn of {row.task_id!r}", hint=_HINT)
    _check_count(place, "turns", len(rows), task.model_calls)
    calls = sum(len(row.recorded_tool_calls_after) for row in rows)
    _check_count(place, "tool calls", calls, task.tool_calls)
    return AgentSession(task.task_id, tuple(_turn(row) for row in rows))


def _check_count(place: str, what: str, found: int, told: int) -> None:
    if found != told:
        raise UsageError(f"{place}: {found} {what}, its manifest has {told}", hint=_HINT)


def _turn(row: _Row) -> AgentTurn:
    return AgentTurn(
        messages=tuple(map(_message, row.messages)),
        tools=tuple(
            ToolSchema(one.function.name, one.function.description, one.function.parameters)
            for one in row.tools
        ),
        output_tokens=row.target_output_tokens,
        wait_s=row.simulated_tool_delay_ms_after / 1e3,
        recorded_prompt_tokens=row.recorded_prompt_tokens,
    )


def _message(message: _MessageLine) -> AgentMessage:
    calls = tuple(
        AgentCall(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
    )
    return AgentMessage(message.role, message.content or "", calls, message.tool_call_id)


def _read(form: type[FormT], text: bytes, place: str) -> FormT:
    try:
        return form.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, fault["loc"]))
        said = fault["msg"][:1].lower() + fault["msg"][1:]
        raise UsageError(f"{place}: {field or 'the line'}: {said}", hint=_HINT) from None
