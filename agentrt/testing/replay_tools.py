"""Tools in a replay: results and times are those of the recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from agentrt.base.canonical_json import dumps
from agentrt.base.errors import AgentrtError, ToolFailed
from agentrt.recording import RecordedError, RecordedRuns, RecordedToolCall
from agentrt.testing.recorded_left import take
from agentrt.testing.recorded_value import recorded_value
from agentrt.testing.replay_script import GRACE_S, RecordingMismatch
from agentrt.tools import ToolSpec
from agentrt.tools.result_type import result_adapter
from agentrt.tools.write_log import WriteCall

_CUT_OFF = asyncio.CancelledError.__name__
"""Type of the error of an attempt that was cancelled, by the program or by a deadline."""


class ReplayTools:
    """Makes the tool calls of a replay; a value for `RunOptions.on_tool`.

    A `pure` tool is computed again, so that a change of it is seen; it takes the recorded time. No
    other tool is called: its result or its error comes from the recording.

    Args:
        recording: The recording.

    Attributes:
        problems: Calls that the recording does not have.
    """

    def __init__(self, recording: RecordedRuns) -> None:
        self.problems: list[AgentrtError] = []
        self._left = list(recording.tool_calls)
        self._made: dict[str, tuple[RecordedToolCall, int]] = {}

    async def __call__(self, use: WriteCall, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The result of one attempt.

        Raises:
            RecordingMismatch: The recording has no such call.
            ToolFailed: The attempt failed when it was recorded.
        """
        spec = use.spec
        found, attempt = self._made.get(use.call, (None, 0))
        if found is None:
            found = self._take(use)
        if found is None or attempt >= len(found.attempts):
            if spec.effects == "pure":
                return await make()
            self.problems.append(self._mismatch(use))
            raise self.problems[-1]
        self._made[use.call] = (found, attempt + 1)
        recorded = found.attempts[attempt]
        await anyio.sleep(recorded.seconds + (0.0 if attempt else found.wait_s))
        if spec.effects == "pure":
            return await make()
        if recorded.error is not None and recorded.error.type == _CUT_OFF:
            await anyio.sleep(GRACE_S)
            self.problems.append(_goes_on(use, recorded.seconds))
            raise self.problems[-1]
        if recorded.error is not None:
            raise _failed(spec.name, recorded.error, attempt + 1)
        try:
            if found.result is None:
                raise RecordingMismatch(f"the recording has no result of {use.call}")
            return _value(spec, found.result)
        except RecordingMismatch as problem:
            self.problems.append(problem)
            raise

    def _take(self, use: WriteCall) -> RecordedToolCall | None:
        """The recorded call: that of the same node first, else the first with equal arguments."""
        arguments = _plain(dict(use.arguments))
        return take(
            self._left,
            lambda one: one.name == use.spec.name and one.arguments == arguments,
            use.call,
        )

    def _mismatch(self, use: WriteCall) -> RecordingMismatch:
        shown = dumps(_plain(dict(use.arguments)))
        made = [dumps(one.arguments) for one in self._left if one.name == use.spec.name]
        lines = "".join(f"\n  {one}" for one in made)
        left = f"the recording has these calls left:{lines}" if made else "there are none left"
        return RecordingMismatch(f"{use.call}: {use.spec.name} was not called with {shown}; {left}")


def _failed(name: str, error: RecordedError, attempts: int) -> ToolFailed:
    """The failure as `execute` makes it of what a tool raises."""
    if error.type == ToolFailed.__name__:
        return ToolFailed(error.message.removeprefix(f"{name}: "), tool=name)
    message = f"{name}: {error.type}: {error.message or 'no message'}"
    failed = ToolFailed(message, tool=name, attempts=attempts)
    failed.__cause__ = Exception(error.message or error.type)  # the text for a prompt
    return failed


def _goes_on(use: WriteCall, after_s: float) -> RecordingMismatch:
    return RecordingMismatch(
        f"{use.call} was cancelled in the recording after {after_s:.3f} s, and goes on now"
    )


def _plain(value: Any) -> Any:
    try:
        return json.loads(dumps(value))
    except ValueError:
        return repr(value)


def _value(spec: ToolSpec, text: str) -> Any:
    """The result, as the tool's return type says; text is recorded as it is."""
    adapter = result_adapter(spec)
    if adapter is None:
        raise RecordingMismatch(
            f"the result of {spec.name} cannot be read back: its return type has no JSON form",
            hint="Let the tool return plain data or a model, or declare it pure",
        )
    try:
        return recorded_value(adapter, text)
    except ValueError as error:
        raise RecordingMismatch(f"the recorded result of {spec.name}: {error}") from None
