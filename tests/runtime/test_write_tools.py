"""`write` tools under deadlines: the run ends in time, the tool in its own time."""

from typing import Any

import anyio
import pytest

from agentrt import (
    DeadlineExceeded,
    OutcomeUnknown,
    RunConfig,
    ToolFailed,
    chat,
    idempotency_key,
    limits,
    program,
    tool,
)
from agentrt.protocol.events import NodeFinished
from agentrt.runtime import RunOptions

ASK = chat(system="Be brief.")


def paying(log: list[float]) -> Any:
    @tool(effects="write")
    async def pay() -> str:
        await anyio.sleep(10)
        log.append(anyio.current_time())
        return "receipt"

    return pay


def test_a_deadline_of_the_run_does_not_wait_for_a_write(bench: Any) -> None:
    log: list[float] = []
    pay = paying(log)

    @program
    async def settle() -> Any:
        return await pay()

    rig = bench([])

    async def main(runtime: Any) -> float:
        began_s = anyio.current_time()
        with pytest.raises(DeadlineExceeded) as late:
            await runtime.with_options(RunOptions(deadline_s=3)).run(settle)
        assert "in tool:pay#0, with unknown outcome" in late.value.__notes__
        assert not log
        return anyio.current_time() - began_s

    assert rig.main(main) == 3
    assert len(log) == 1, "the runtime waited for it at its end"
    end = rig.recorder.of(NodeFinished, "pay")[0]
    assert (end.outcome, end.error.type) == ("failed", "OutcomeUnknown")


def test_a_deadline_of_a_block_gives_the_program_an_unknown_outcome(bench: Any) -> None:
    log: list[float] = []
    pay = paying(log)

    @program
    async def settle() -> Any:
        try:
            async with limits(seconds=3):
                node = pay()
                await node
        except DeadlineExceeded:
            assert not log
        with pytest.raises(OutcomeUnknown) as unknown:
            await node
        return f"{unknown.value.tool}?"

    assert bench([]).run(settle) == "pay?"
    assert len(log) == 1


def test_the_grace_is_a_setting(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log: list[float] = []
    pay = paying(log)

    @program
    async def settle() -> Any:
        return await pay()

    config = RunConfig(deadline_s=3, write_grace_s=2)
    with pytest.raises(DeadlineExceeded):
        bench([]).run(settle, config=config)
    assert not log
    assert "waiting up to 2 s for pay" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_tool_that_interrupts_fails_the_prompt_that_waits_for_it(
    bench: Any, kind: type[BaseException]
) -> None:
    @tool(effects="read")
    def price() -> str:
        raise kind("mine")

    @program
    async def report() -> str:
        return await ASK.user("Price: ", price()).generate()

    with pytest.raises(ToolFailed, match="mine"):
        bench(["never"]).run(report)


def test_each_call_of_a_run_has_a_key_of_its_own(bench: Any) -> None:
    @tool(effects="write")
    async def pay() -> str:
        return idempotency_key()

    @program
    async def settle() -> list[str]:
        return [await pay(), await pay()]

    async def main(runtime: Any) -> list[str]:
        first: list[str] = await runtime.run(settle)
        second: list[str] = await runtime.run(settle)
        return first + second

    keys = bench([]).main(main)
    assert len(set(keys)) == 4
    assert {len(key) for key in keys} == {32}
