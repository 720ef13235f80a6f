"""What a replay knows reaches the engine alone: ends of outputs, and the future by policy."""

from contextlib import AsyncExitStack

import anyio
import pytest

from agentrt import embedded
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.ids import RunId
from agentrt.lab.arms.replay import Play, program_of
from agentrt.lab.arms.replay_backend import ReplayBackend
from agentrt.lab.arms.runtime_arm import RuntimeArm
from agentrt.lab.arms.wire import CallLine, ProgramLine, ProgramSample
from agentrt.program import Gen
from agentrt.protocol.backend import GenerateRequest
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, ScriptedBackend
from agentrt.testing.loop import run_virtual
from tests.lab.arms.made_programs import ASK, call, program

LENGTHS = (7, 19)


def told(name: str, tokens: int, *needs: str) -> CallLine:
    """A call with a limit and its service."""
    line = call(name, ASK, ("user", [{"text": f" {name}"}]), tokens=tokens, needs=needs)
    return {**line, "site": "one", "limit": 40, "service_s": tokens / 10}


def replayed() -> ProgramLine:
    """Two calls of a site, one after the other."""
    calls = [told("first", LENGTHS[0]), told("then", LENGTHS[1], "first")]
    return {**program("made/0", [*calls], ["then"]), "kv_tokens": (64.0, 48.0)}


def sent(policy: PolicyName) -> list[GenerateRequest]:
    """The requests that reach an engine of this policy."""
    requests: list[GenerateRequest] = []

    async def play() -> None:
        clock, run_id, one = LoopClock(), RunId("0" * 16), Play(replayed())
        backend = ScriptedBackend(lambda request, prompt: "w" * 64, clock=clock)
        serving = ReplayBackend(backend, {run_id: one}, policy)
        scheduler = SchedulerConfig(policy=policy)
        async with Runtime({"default": (serving, None)}, clock=clock, scheduler=scheduler) as here:
            options = RunOptions(run_id=run_id, true_service_s=one.rest_s)
            await here.with_options(options).run(program_of("made"), one)
        requests.extend(backend.seen.requests)

    run_virtual(play)
    return requests


@pytest.mark.parametrize("policy", ["fcfs", "rwa", "oracle", "clairvoyant"])
def test_a_policy_sees_limits_and_the_engine_ends(policy: PolicyName) -> None:
    requests = sent(policy)
    assert [one.sampling.max_tokens for one in requests] == [40, 40]
    assert [one.replayed_tokens for one in requests] == list(LENGTHS)
    infos = [one.info for one in requests if one.info is not None]
    rests = [one.true_rest_s for one in infos]
    lengths = [one.output_tokens for one in infos]
    foresees = policy == "clairvoyant"
    if policy in ("oracle", "clairvoyant"):
        assert rests == pytest.approx([2.6, 1.9])
    else:
        assert all(one is None or one > 1.9 for one in rests), "no call's end is told"
    assert (lengths == list(LENGTHS)) == foresees


def test_the_engine_ends_each_output_where_it_ended() -> None:
    async def play() -> list[ProgramSample]:
        async with AsyncExitStack() as stack:
            arm = RuntimeArm(stack)
            engine = {"model_path": str(embedded.path()), "dtype": "float32", "kv_pages": 64}
            await arm.open({"engine": engine, "scheduler": {"policy": "clairvoyant"}})
            found: list[ProgramSample] = (await arm.play([replayed()]))["samples"]
            return found

    (sample,) = anyio.run(play)
    assert not sample["error"]
    assert [one["output_tokens"] for one in sample["calls"]] == list(LENGTHS)


def test_an_engine_that_cannot_replay_is_given_the_true_limit() -> None:
    requests: list[GenerateRequest] = []

    async def play() -> str:
        clock, run_id, one = LoopClock(), RunId("0" * 16), Play(replayed())
        backend = ScriptedBackend(lambda request, prompt: "w" * 64, clock=clock)
        serving = ReplayBackend(backend, {run_id: one}, "rwa", cuts=True)
        async with Runtime({"default": (serving, None)}, clock=clock) as here:
            options = RunOptions(run_id=run_id)
            await here.with_options(options).run(program_of("made"), one)
        requests.extend(backend.seen.requests)
        first = one.nodes["first"]
        assert isinstance(first, Gen)
        return first.meta.finish_reason

    assert run_virtual(play) == "stop", "the program sees an output that ended by itself"
    assert [one.sampling.max_tokens for one in requests] == list(LENGTHS)
    assert [one.replayed_tokens for one in requests] == [0, 0]
