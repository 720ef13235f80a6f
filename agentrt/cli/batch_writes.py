"""The calls of `write` tools of one record: logged, and never made twice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
from anyio import to_thread
from pydantic import TypeAdapter
from pydantic_core import to_json

from agentrt.base.errors import OutcomeUnknown, ToolFailed
from agentrt.cli.batch_inputs import RunInput
from agentrt.cli.batch_state import BatchState, CallEnd, LoggedCall
from agentrt.tools import ToolSpec, WriteCall, idempotency_key_of, tool_call_key
from agentrt.tools.raised import original


class RecordWrites:
    """Makes the calls of one record, for `RunOptions.on_write`.

    A call that an earlier command has made is not made again: its logged result or error is given
    instead. One that the program makes with other arguments than before is refused.

    Args:
        state: The state file.
        record: The record.
        again: Whether calls that failed, or whose outcome is unknown, are made again.
    """

    def __init__(self, state: BatchState, record: RunInput, *, again: bool) -> None:
        self._state = state
        self._record = record
        logged = state.records.get(record.number)
        self._earlier = dict(logged.calls) if logged is not None else {}
        if again:
            self._earlier = {k: one for k, one in self._earlier.items() if one.end == "done"}

    async def __call__(self, write: WriteCall, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The result of a call, logged or from the log.

        Raises:
            OutcomeUnknown: An earlier command has made the call otherwise, or has lost its end.
            ToolFailed: The call of an earlier command failed.
        """
        arguments = hash_of(write.arguments)
        earlier = self._earlier.pop(write.call, None)
        if earlier is not None:
            return _result_of(earlier, write.spec, arguments)
        record, state = self._record, self._state
        key = idempotency_key_of(state.batch_id, record.digest, write.call, arguments)
        call = LoggedCall(write.call, write.spec.name, arguments, key)
        await _in_thread(partial(state.begin, record.number, record.digest, call))
        tool_call_key.set(key)
        try:
            value = await make()
        except Exception as error:
            await self._end(call, "failed", _named(original(error)))
            raise
        await self._end(call, "done", _json_of(write.spec, value))
        return value

    def check_all_made(self) -> None:
        """Check that no call of an earlier command was left out.

        Raises:
            OutcomeUnknown: One was: the program has taken another way since.
        """
        for earlier in self._earlier.values():
            raise OutcomeUnknown(
                f"{earlier.call} was called before the batch was cut off, and not any more: "
                "the program took another way",
                hint="Look what was done for this record",
                tool=earlier.tool,
            )

    async def _end(self, call: LoggedCall, end: CallEnd, text: str | None) -> None:
        await _in_thread(partial(self._state.end_call, self._record.number, call.call, end, text))


def hash_of(arguments: Any) -> str:
    """Hash of the arguments of a call."""
    return sha256(to_json(arguments, fallback=repr, inf_nan_mode="constants")).hexdigest()[:16]


async def _in_thread(function: Callable[[], None]) -> None:
    """Run a function that waits for the disk, to its end."""
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(function)


def _result_of(earlier: LoggedCall, spec: ToolSpec, arguments: str) -> Any:
    if earlier.arguments != arguments:
        raise OutcomeUnknown(
            f"{spec.name} was called with other arguments before the batch was cut off",
            hint="Look what was done for this record",
            tool=spec.name,
        )
    if earlier.end == "failed":
        raise ToolFailed(f"{spec.name}: {earlier.text}", tool=spec.name)
    if earlier.end == "unknown" or earlier.text is None:
        how = "its end is not known" if earlier.end == "unknown" else "its result has no JSON form"
        raise OutcomeUnknown(
            f"{spec.name} was called before the batch was cut off, and {how}", tool=spec.name
        )
    return _adapter(spec).validate_json(earlier.text)


def _adapter(spec: ToolSpec) -> TypeAdapter[Any]:
    """Reader and writer of the tool's results."""
    from agentrt.tools.result_type import result_adapter  # for batches that are cut off

    return result_adapter(spec) or TypeAdapter(Any)


def _json_of(spec: ToolSpec, value: Any) -> str | None:
    """A result as JSON that gives the same value back; None if there is no such text."""
    adapter = _adapter(spec)
    try:
        text = adapter.dump_json(value, warnings="error")
        return text.decode() if adapter.validate_json(text) == value else None
    except Exception:
        return None


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
