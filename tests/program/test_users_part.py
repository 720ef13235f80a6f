"""What of a traceback a user sees."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from agentrt import InternalError, Runtime, ToolFailed, UsageError, chat, program, tool
from agentrt.base.errors import revive
from agentrt.program.users_part import users_part, without_inner_frames
from agentrt.protocol.step_output import End
from agentrt.protocol.wire import Wire
from agentrt.testing import ScriptedRuntime
from agentrt.testing.scripted_runtime import outside_loop


def names_of(error: BaseException) -> list[str]:
    found, link = [], error.__traceback__
    while link is not None:
        found.append(link.tb_frame.f_code.co_name)
        link = link.tb_next
    return found


def raised_by(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # any
        call()
    return raised.value


def test_frames_of_this_package_are_left_out() -> None:
    error = raised_by(lambda: chat(history="no"))  # type: ignore[arg-type]
    assert isinstance(error, UsageError)
    assert len(names_of(error)) > len(names_of(without_inner_frames(error))) == 2


def test_an_attribute_of_a_pending_value_ends_at_the_users_line() -> None:
    @program
    async def shout() -> Any:
        return chat().user("x").generate().upper()  # type: ignore[attr-defined]

    error = raised_by(lambda: ScriptedRuntime(["Nile"]).run(shout))
    assert isinstance(error, AttributeError)
    assert names_of(error)[-1] == "shout"


def test_the_users_own_errors_keep_the_frames_of_libraries() -> None:
    error = without_inner_frames(raised_by(lambda: json.loads("{")))
    assert names_of(error)[-1] == "raw_decode"


def test_a_fault_of_this_package_is_shown_whole() -> None:
    for fault in (lambda: revive(None), lambda: revive(1)):  # type: ignore[arg-type]
        error = raised_by(fault)
        before = names_of(error)
        assert names_of(without_inner_frames(error)) == before


def test_an_internal_error_is_shown_whole() -> None:
    error = raised_by(lambda: Wire(End).value(b"\xc1"))
    assert isinstance(error, InternalError)
    assert names_of(without_inner_frames(error))[-1] == "value"


def test_the_cause_of_a_failure_is_cut_too() -> None:
    def fail() -> None:
        raise ValueError("mine")

    def wrapped() -> None:
        try:
            outside_loop(fail)
        except ValueError as error:
            raise ToolFailed("div: ValueError") from error

    cause = without_inner_frames(raised_by(wrapped)).__cause__
    assert cause is not None
    assert names_of(cause) == ["wrapped", "fail"]


def test_a_part_without_frames_is_whole() -> None:
    assert users_part(None) is None


def test_a_timeout_of_a_tool_shows_no_frames_of_this_package() -> None:
    @tool(effects="read", timeout=1.0)
    async def hang() -> None:
        await anyio.sleep(9)

    @program
    async def wait() -> None:
        await hang()

    error = raised_by(lambda: ScriptedRuntime([]).run(wait))
    assert isinstance(error, ToolFailed)
    assert names_of(error)[-1] == "wait"
    assert isinstance(error.__cause__, TimeoutError)
    assert names_of(error.__cause__) == []


def test_an_awaited_run_ends_at_the_users_line() -> None:
    @program
    async def inner() -> None:
        raise ValueError("mine")

    @program
    async def outer() -> None:
        await inner()

    errors: list[BaseException] = []

    async def main(runtime: Runtime) -> None:
        try:
            await runtime.run(outer)
        except ValueError as error:
            errors.append(error)

    ScriptedRuntime([]).play(main)
    names = names_of(errors[0])
    assert names[0] == "main"
    assert names[-2:] == ["outer", "inner"]
    assert "body" not in names, "of the runtime, between the two"
