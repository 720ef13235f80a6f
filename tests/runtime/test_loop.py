"""The loop: the same events each time, observers that may fail, one delivery a step."""

import logging
from typing import Any

import anyio
import pytest

from agentrt import UsageError, chat, gather, program, race, tool
from agentrt.base.config import RunConfig
from agentrt.base.errors import InternalError
from agentrt.base.ids import RunId
from agentrt.protocol.events import (
    FirstToken,
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
)
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

ASK = chat(system="Be brief.")
RUN = RunOptions(run_id=RunId("00000000000000ab"))


@tool(effects="pure")
async def nap(seconds: float) -> float:
    """Sleeps."""
    await anyio.sleep(seconds)
    return seconds


@program
async def mixed(n: int) -> str:
    drafts = [ASK.user(str(i)).generate(temperature=0.8, name=f"s{i}") for i in range(n)]
    naps = [nap(0.1 * i) for i in range(3)]
    async with race(drafts) as finished:
        first = await anext(finished)
    data = await gather(*naps)
    return await ASK.user(first, str(data)).generate(name="last")


def script(request: Any, prompt: str) -> str:
    return "y" * int(3 + request.sampling.seed % 17)


def trace(bench: Any, codec: Any) -> list[Any]:
    rig = bench(script, codec=codec, decode_tokens_per_s=50.0)
    rig.run(mixed, 6, options=RUN)
    return list(rig.recorder.events)


def test_the_same_run_gives_the_same_events(bench: Any, codec: Any) -> None:
    assert trace(bench, codec) == trace(bench, codec)


def test_seeds_follow_the_run_and_the_path_alone(bench: Any) -> None:
    def seeds(run_seed: int, order: list[str]) -> dict[str, int]:
        @program
        async def outer() -> int:
            return len([await ASK.user("x").generate(name=name) for name in order])

        rig = bench(lambda request, prompt: "y")
        rig.run(outer, config=RunConfig(seed=run_seed))
        return {r.node_id: r.sampling.seed for r in rig.backend.seen.requests}

    one = seeds(1, ["a", "b", "a"])
    assert one == seeds(1, ["b", "a", "a"])
    assert len(set(one.values())) == 3
    assert not set(one.values()) & set(seeds(2, ["a", "b", "a"]).values())
    assert all(0 <= seed < 2**63 for seed in one.values())


def test_events_of_a_run_are_framed_and_complete(bench: Any) -> None:
    rig = bench(script, decode_tokens_per_s=50.0)
    rig.run(mixed, 3, options=RUN)
    events = rig.recorder.events
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert events[0].program == "mixed"
    assert events[0].source.endswith("tests/runtime/test_loop.py:mixed")
    declared = {e.node_id for e in rig.recorder.of(NodeDeclared)}
    finished = [e.node_id for e in rig.recorder.of(NodeFinished)]
    assert sorted(finished) == sorted(declared), "every node ends exactly once"
    for event in rig.recorder.of(NodeDeclared):
        assert event.site.rpartition(":")[0].endswith("test_loop.py")
    for request in rig.recorder.of(RequestSent):
        kinds = [type(e) for e in events if getattr(e, "node_id", "") == request.node_id]
        order = [NodeDeclared, RequestSent, NodeFinished]
        assert [k for k in kinds if k in order] == order
        assert kinds.count(FirstToken) <= 1
        assert kinds.count(NodeDemanded) <= 1
    assert [e.at_s for e in events if hasattr(e, "at_s")] == sorted(
        e.at_s for e in events if hasattr(e, "at_s")
    )


def test_a_step_is_one_batch(bench: Any) -> None:
    """A step's tokens and ends, and what follows from them, are seen together."""
    rig = bench(script, decode_tokens_per_s=50.0)
    rig.run(mixed, 4, options=RUN)
    steps = [b for b in rig.recorder.batches if any(isinstance(e, StepDone) for e in b)]
    ended = [e for b in steps for e in b if isinstance(e, NodeFinished) and e.ledger is not None]
    assert len(ended) == len(rig.backend.seen.requests)


class Faulty:
    """An observer that fails."""

    def __init__(self) -> None:
        self.seen = 0

    def on_events(self, events: Any) -> None:
        self.seen += 1
        raise RuntimeError("observer broke")


def test_an_observer_that_raises_is_dropped_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = Faulty()

    async def main() -> Any:
        clock = LoopClock()
        backend = ScriptedBackend(script, clock=clock)
        runtime = Runtime({"default": (backend, None)}, clock=clock, observers=[faulty])
        async with runtime:
            await runtime.run(mixed, 3)
            return runtime.observers.dropped

    with caplog.at_level(logging.ERROR, logger="agentrt"):
        dropped = run_virtual(main)
    assert faulty.seen == 1
    assert [type(error) for _, error in dropped] == [RuntimeError]
    assert "Faulty raised RuntimeError('observer broke') and is dropped" in caplog.text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (RunOptions(run_id=RunId("xyz")), "run id 'xyz' is malformed"),
        (RunOptions(deadline_s=-1.0), "deadline_s=-1"),
    ],
)
def test_options_of_a_run_are_checked(bench: Any, options: RunOptions, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        bench([]).run(mixed, 1, options=options)


def test_two_runs_cannot_have_one_id(bench: Any) -> None:
    async def main(runtime: Any) -> None:
        configured = runtime.with_options(RUN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(configured.run, mixed, 2)
            await anyio.sleep(0.01)
            with pytest.raises(UsageError, match="is in use"):
                await configured.run(mixed, 2)

    bench(script, decode_tokens_per_s=10.0).main(main)


def test_a_runtime_must_be_open_and_have_a_default() -> None:
    backend = ScriptedBackend([], clock=LoopClock())

    async def main() -> None:
        with pytest.raises(UsageError, match="not open"):
            await Runtime({"default": (backend, None)}).run(mixed, 1)

    run_virtual(main)
    with pytest.raises(UsageError, match="no engine has the role 'default'"):
        Runtime({"large": (backend, None)})


def test_an_engine_and_a_codec_must_fit(codec: Any) -> None:
    async def main() -> None:
        backend = ScriptedBackend([], clock=LoopClock(), codec=codec)
        with pytest.raises(InternalError, match="has no codec"):
            async with Runtime({"default": (backend, None)}):
                pass

    run_virtual(main)


def test_roles_name_engines(codec: Any) -> None:
    """What another model wrote is text for this one, and the loss is told."""

    @program
    async def outer() -> str:
        small = ASK.user("x").generate(name="small")
        return await small.ctx.user("y").generate(name="large", model="large")

    async def main() -> Any:
        clock = LoopClock()
        small = ScriptedBackend(["small says"], clock=clock)
        large = ScriptedBackend(["large says"], clock=clock, codec=codec)
        runtime = Runtime({"default": (small, None), "large": (large, codec)}, clock=clock)
        async with runtime:
            said = await runtime.run(outer)
        return said, small.seen, large.seen

    said, small, large = run_virtual(main)
    assert said == "large says"
    assert [r.node_id for r in small.requests] == ["outer#0/small#0"]
    assert [r.node_id for r in large.requests] == ["outer#0/large#0"]
    assert "small says" in next(iter(large.prompts.values()))


@pytest.mark.parametrize("when", ["a generation is sent", "a tool runs"])
def test_our_own_bug_ends_every_run_and_hangs_nothing(
    bench: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @program
    async def outer() -> float:
        slow = nap(30.0)
        await nap(1.0)
        return await nap(float(await ASK.user("x").generate())) + await slow

    rig = bench(["0"], decode_tokens_per_s=10.0)

    def bug(*args: Any) -> None:
        raise ZeroDivisionError("a bug")

    if when == "a generation is sent":
        monkeypatch.setattr(rig.backend, "submit", bug)
    else:
        monkeypatch.setattr("agentrt.runtime.loop.apply", bug)

    async def main(runtime: Any) -> None:
        for _ in range(2):
            with pytest.raises(
                InternalError, match="the loop broke: ZeroDivisionError: a bug"
            ) as e:
                await runtime.run(outer)
            assert "please report" in str(e.value)
            assert isinstance(e.value.__cause__, ZeroDivisionError)

    rig.main(main)


def test_closing_a_runtime_ends_the_runs_under_way(bench: Any) -> None:
    @program
    async def outer() -> str:
        return await ASK.user("x").generate()

    rig = bench(["a" * 500], decode_tokens_per_s=1.0)
    ended: list[Exception] = []

    async def main() -> None:
        async def one(runtime: Runtime) -> None:
            with pytest.raises(UsageError, match="closed while this run was under way") as e:
                await runtime.run(outer)
            ended.append(e.value)

        async with anyio.create_task_group() as tasks, rig.runtime() as runtime:
            tasks.start_soon(one, runtime)
            await anyio.sleep(1.0)

    run_virtual(main)
    assert len(ended) == 1
