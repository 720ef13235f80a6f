"""Running a tool: in a worker thread or awaited, with timeout, retries and cancellation.

`pure`, `read` and `idempotent` tools stop at once when cancelled (a thread that cannot be stopped
is abandoned and its result dropped). A `write` tool goes on; only the wait for it ends. Any error
of a tool is its failure, also a `sys.exit` as command-line functions call it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread

from agentrt.base.canonical_json import dumps
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.errors import ErrorRecord, OutcomeUnknown, ToolFailed, record_of
from agentrt.tools.attempt import AttemptEnded, AttemptStarted, OnAttempt
from agentrt.tools.raised import awaited, called, original
from agentrt.tools.result_size import MAX_RESULT_BYTES, check_result
from agentrt.tools.signature import raised_at
from agentrt.tools.spec import ToolSpec
from agentrt.tools.workers import run_in_worker
from agentrt.tools.write_calls import WriteCalls, awaited_write, called_write
from agentrt.tools.write_log import OnTool, OnWrite, WriteCall
from agentrt.tools.yielded_text import OnText, YieldedText

MAX_SHOWN_CHARACTERS = 400

MakeCall = Callable[[], Coroutine[Any, Any, Any]]


async def execute(
    spec: ToolSpec,
    kwargs: Mapping[str, Any],
    *,
    clock: Clock | None = None,
    on_attempt: OnAttempt | None = None,
    limiter: CapacityLimiter | None = None,
    writes: WriteCalls | None = None,
    max_result_bytes: int = MAX_RESULT_BYTES,
    on_write: OnWrite | None = None,
    on_tool: OnTool | None = None,
    call_path: str = "",
    on_text: OnText | None = None,
) -> Any:
    """Run a tool to its result.

    Args:
        spec: The tool.
        kwargs: Arguments by name; bound ones are added.
        clock: Clock of the reported instants and durations, and of the pauses between attempts.
        on_attempt: Called at each attempt's start and end.
        limiter: Limit of worker threads, shared by synchronous tools.
        writes: Takes the call of a `write` tool, which may outlive the wait for it.
        max_result_bytes: Limit on the text of the result, for tools that set none.
        on_write: Makes the call of a `write` tool.
        on_tool: Makes each attempt of any tool, in place of `on_write`.
        call_path: Path of the node of the call, for `on_write` and `on_tool`.
        on_text: Takes each text that the tool yields.

    Returns:
        The tool's result.

    Raises:
        ToolFailed: The last attempt raised or timed out, chained to that error; or the result is
            too large.
        OutcomeUnknown: The wait for a `write` tool timed out or was cancelled.
    """
    clock = clock or MonotonicClock()
    arguments = {**spec.bound, **kwargs}
    report = on_attempt or _ignore
    limiter = limiter or to_thread.current_default_thread_limiter()
    writes = writes or WriteCalls()
    limit = spec.max_result_bytes or max_result_bytes
    around: Callable[[MakeCall], Coroutine[Any, Any, Any]] | None = None
    wrap = on_tool or (on_write if spec.effects == "write" else None)
    if wrap is not None:
        around = partial(wrap, WriteCall(call_path, spec, kwargs))
    started_at_s = clock.now_s()
    for attempt in range(1, spec.retries + 2):
        try:
            value = await _attempt(
                spec,
                arguments,
                attempt,
                clock,
                report,
                limiter,
                writes,
                limit,
                around,
                on_text or _ignore,
            )
        except OutcomeUnknown:
            raise
        except Exception as raised:
            error = original(raised)
            if attempt <= spec.retries:
                await clock.sleep(spec.backoff_s(attempt))
                continue
            failed = _failed(spec, error, attempt)
            shown = _shown({k: v for k, v in arguments.items() if k not in spec.bound})
            duration_s = clock.now_s() - started_at_s
            failed.add_note(
                f"in tool {spec.name}({shown}), attempt {attempt} of {spec.retries + 1}, "
                f"after {duration_s:.3f} s"
            )
            if failed is error:
                raise
            raise failed from error
        if not (isinstance(value, int) or (isinstance(value, str) and 4 * len(value) <= limit)):
            await check_result(value, limit, tool=spec.name, where=spec.where)
        return value
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _attempt(
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    attempt: int,
    clock: Clock,
    report: OnAttempt,
    limiter: CapacityLimiter,
    writes: WriteCalls,
    max_bytes: int,
    around: Callable[[MakeCall], Coroutine[Any, Any, Any]] | None,
    on_text: OnText,
) -> Any:
    slot = object()  # of the worker limit; released when the function returns, even if abandoned
    if not spec.is_async:
        await limiter.acquire_on_behalf_of(slot)
    report(AttemptStarted(attempt, clock.now_s()))
    error: ErrorRecord | None = None
    process = None
    bound: Callable[[], Any] = partial(spec.fn, **arguments)
    yielded = YieldedText(on_text, max_bytes) if spec.yields else None
    if yielded is not None:
        bound = yielded.joined(bound, is_async=spec.is_async)
    if spec.process is not None:
        from agentrt.tools.process_call import ProcessCall

        process = ProcessCall(spec, arguments, max_bytes)
        bound = partial(process.run)
    if spec.effects == "write":
        bound = partial(awaited_write if spec.is_async else called_write, spec.name, bound)
    call: MakeCall = partial(awaited, bound)
    release: Callable[[], None] = _nothing
    if not spec.is_async:
        release = partial(limiter.release_on_behalf_of, slot)
        call = partial(run_in_worker, partial(called, bound), release)
    made = call if around is None else partial(_around, around, call, release)
    try:
        if spec.effects == "write":
            return await writes.result_of(spec.name, made, spec.timeout_s)
        return await _timed(made, spec.timeout_s)
    except BaseException as raised:
        error = record_of(original(raised))
        if process is not None and spec.effects != "write":
            process.kill()
        if yielded is not None and spec.effects != "write":
            yielded.stop()
        raise
    finally:
        report(AttemptEnded(attempt, clock.now_s(), error))


async def _around(
    around: Callable[[MakeCall], Coroutine[Any, Any, Any]],
    call: MakeCall,
    release: Callable[[], None],
) -> Any:
    """The result of a call that the caller makes; its worker is given back if there is no call."""
    is_made = False

    async def make() -> Any:
        nonlocal is_made
        is_made = True
        return await call()

    try:
        return await around(make)
    finally:
        if not is_made:
            release()


async def _timed(call: Any, timeout_s: float | None) -> Any:
    if timeout_s is None:
        return await call()
    with CancelScope(deadline=anyio.current_time() + timeout_s) as scope:
        return await call()
    assert scope.cancelled_caught
    raise TimeoutError(f"took longer than {timeout_s:g} s")


def _failed(spec: ToolSpec, error: BaseException, attempts: int) -> ToolFailed:
    if isinstance(error, ToolFailed):
        return error
    message = str(error) or "no message"
    exits = isinstance(error, SystemExit)
    return ToolFailed(
        f"{spec.name}: {type(error).__name__}: {message}",
        hint="A tool ends by returning or raising: sys.exit is for programs" if exits else "",
        tool=spec.name,
        attempts=attempts,
        where=spec.where if spec.schemas is not None else raised_at(spec.fn, error),
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    try:
        text = dumps(arguments)
    except ValueError:
        text = repr(dict(arguments))
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "..."


def _ignore(_: AttemptStarted | AttemptEnded | str) -> None:
    return None


def _nothing() -> None:
    return None
