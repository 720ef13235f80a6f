"""The state file of a batch, and what calls of `write` tools are given from it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import OutcomeUnknown, ToolFailed, UsageError
from agentrt.cli.batch_inputs import RunInput
from agentrt.cli.batch_state import BatchState
from agentrt.cli.batch_writes import RecordWrites
from agentrt.tools import ToolSpec, WriteCall, tool_call_key

RECORD = RunInput({}, 7, "d1")


@dataclass
class Receipt:
    cents: int


def pay(cents: int) -> Receipt:
    """Pays."""
    return Receipt(cents)


SPEC = ToolSpec.of(pay, effects="write")


def made(
    state: BatchState,
    *,
    cents: int = 5,
    call: str = "job#0/pay#0",
    again: bool = False,
    ends: Callable[[], Any] | None = None,
) -> tuple[Any, list[str]]:
    """The result of one call, and the keys with which the tool was called."""
    keys: list[str] = []

    async def make() -> Any:
        keys.append(tool_call_key.get())
        return ends() if ends else Receipt(cents)

    async def main() -> Any:
        writes = RecordWrites(state, RECORD, again=again)
        return await writes(WriteCall(call, SPEC, {"cents": cents}), make)

    try:
        return anyio.run(main), keys
    finally:
        state.close()


def fail() -> None:
    raise OSError("no network")


def cut() -> None:
    raise SystemExit  # as at the end of a process: no end is logged


def test_a_call_that_is_done_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    value, keys = made(BatchState(path))
    assert (value, len(keys), len(keys[0])) == (Receipt(5), 1, 32)
    assert path.stat().st_mode & 0o777 == 0o600
    assert made(BatchState(path)) == (Receipt(5), []), "the result, in its own type"
    assert made(BatchState(path), again=True) == (Receipt(5), [])


def test_a_call_that_failed_fails_as_before(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    with pytest.raises(OSError, match="no network"):
        made(BatchState(path), ends=fail)
    with pytest.raises(ToolFailed, match="pay: OSError: no network"):
        made(BatchState(path))
    assert made(BatchState(path), again=True)[0] == Receipt(5)


def test_a_call_without_an_end_is_made_by_again_alone_with_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    with pytest.raises(SystemExit):
        made(BatchState(path), ends=cut)
    (lost,) = BatchState(path).records[7].unknown
    with pytest.raises(OutcomeUnknown, match="its end is not known"):
        made(BatchState(path))
    assert made(BatchState(path), again=True) == (Receipt(5), [lost.key])


def test_a_call_with_other_arguments_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    made(BatchState(path))
    with pytest.raises(OutcomeUnknown, match="with other arguments"):
        made(BatchState(path), cents=6)
    _, keys = made(BatchState(path), cents=6, call="job#0/pay#1")
    assert len(keys) == 1, "another call is made"
    with pytest.raises(OutcomeUnknown, match="took another way"):
        RecordWrites(BatchState(path), RECORD, again=False).check_all_made()


def test_a_torn_line_is_ignored_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    made(BatchState(path))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"record": 8, "inp')
    state = BatchState(path)
    state.end_record(7, "d1", "1", 0)
    state.close()
    assert path.read_bytes().startswith(whole + b'{"record": 7')
    assert BatchState(path).records[7].is_settled


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    path.write_text('{"record": 8}\n')
    with pytest.raises(UsageError, match="no readable state"):
        BatchState(path)


def test_two_commands_do_not_share_a_state(tmp_path: Path) -> None:
    path = tmp_path / "out.state"
    first = BatchState(path)
    first.end_record(7, "d1", "1", 0)
    second = BatchState(path)
    with pytest.raises(UsageError, match="another command"):
        second.end_record(7, "d1", "1", 0)
    second.remove()
    assert path.exists()
    second.close()
    first.remove()
    assert not path.exists()
