"""Running a tool: in a worker thread or awaited, with timeout, retries and cancellation.

`pure`, `read` and `idempotent` tools stop at once when cancelled (a thread that cannot be stopped
is abandoned and its result dropped). A running `write` tool is waited for. A tool that calls
`sys.exit`, as a command-line function does, has failed like one that raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope, CapacityLimiter, get_cancelled_exc_class, to_thread

from agentrt.base.canonical_json import dumps
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.errors import ErrorRecord, ToolFailed, record_of
from agentrt.tools.attempt import AttemptEnded, AttemptStarted, OnAttempt
from agentrt.tools.signature import raised_at
from agentrt.tools.spec import ToolSpec
from agentrt.tools.workers import run_in_worker

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
GRACE_S = 30.0
MAX_SHOWN_CHARACTERS = 400


async def execute(
    spec: ToolSpec,
    kwargs: Mapping[str, Any],
    *,
    clock: Clock | None = None,
    on_attempt: OnAttempt | None = None,
    limiter: CapacityLimiter | None = None,
    grace_s: float = GRACE_S,
) -> Any:
    """Run a tool to its result.

    Args:
        spec: The tool.
        kwargs: Arguments by name; bound ones are added.
        clock: Clock of the reported instants and durations.
        on_attempt: Called at each attempt's start and end.
        limiter: Limit of worker threads, shared by synchronous tools.
        grace_s: Time that a cancelled `write` may continue.

    Returns:
        The tool's result.

    Raises:
        ToolFailed: The last attempt raised or timed out; chained to that error.
    """
    clock = clock or MonotonicClock()
    arguments = {**spec.bound, **kwargs}
    report = on_attempt or _ignore
    limiter = limiter or to_thread.current_default_thread_limiter()
    started_at_s = clock.now_s()
    for attempt in range(1, spec.retries + 2):
        try:
            return await _attempt(spec, arguments, attempt, clock, report, limiter, grace_s)
        except (Exception, SystemExit) as error:
            if attempt <= spec.retries:
                backoff_s = min(FIRST_BACKOFF_S * 2 ** (attempt - 1), MAX_BACKOFF_S)
                await anyio.sleep(backoff_s)
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
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _attempt(
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    attempt: int,
    clock: Clock,
    report: OnAttempt,
    limiter: CapacityLimiter,
    grace_s: float,
) -> Any:
    slot = object()  # of the worker limit; released when the function returns, even if abandoned
    if not spec.is_async:
        await limiter.acquire_on_behalf_of(slot)
    report(AttemptStarted(attempt, clock.now_s()))
    error: ErrorRecord | None = None
    try:
        call: Callable[[], Awaitable[Any]] = partial(_awaited, spec, arguments)
        if not spec.is_async:
            release = partial(limiter.release_on_behalf_of, slot)
            call = partial(run_in_worker, partial(spec.fn, **arguments), release)
        timed = partial(_timed, call, spec.timeout_s)
        if spec.effects == "write":
            return await _shielded(timed, grace_s)
        return await timed()
    except BaseException as raised:
        error = record_of(raised)
        raise
    finally:
        report(AttemptEnded(attempt, clock.now_s(), error))


async def _timed(call: Any, timeout_s: float | None) -> Any:
    if timeout_s is None:
        return await call()
    with CancelScope(deadline=anyio.current_time() + timeout_s) as scope:
        return await call()
    assert scope.cancelled_caught
    raise TimeoutError(f"took longer than {timeout_s:g} s")


async def _awaited(spec: ToolSpec, arguments: Mapping[str, Any]) -> Any:
    return await spec.fn(**arguments)


async def _shielded(call: Any, grace_s: float) -> Any:
    """Run `call` to its end even if cancelled, for at most `grace_s` more."""
    done = anyio.Event()
    scope = CancelScope(shield=True)
    outcome: list[Any] = []
    raised: list[Exception | SystemExit] = []

    async def run() -> None:
        with scope:
            try:
                outcome.append(await call())
            except (Exception, SystemExit) as error:
                raised.append(error)
            finally:
                done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        try:
            await done.wait()
        except get_cancelled_exc_class():
            with CancelScope(shield=True), anyio.move_on_after(grace_s):
                await done.wait()
            scope.cancel()
            raise
    if raised:
        raise raised[0]
    return outcome[0]


def _failed(spec: ToolSpec, error: Exception | SystemExit, attempts: int) -> ToolFailed:
    if isinstance(error, ToolFailed):
        return error
    message = str(error) or "no message"
    exits = isinstance(error, SystemExit)
    return ToolFailed(
        f"{spec.name}: {type(error).__name__}: {message}",
        hint="A tool ends by returning or raising: sys.exit is for programs" if exits else "",
        tool=spec.name,
        attempts=attempts,
        where=raised_at(spec.fn, error),
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    try:
        text = dumps(arguments)
    except ValueError:
        text = repr(dict(arguments))
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "..."


def _ignore(_: AttemptStarted | AttemptEnded) -> None:
    return None
