"""Steps of a simulated engine: one by one, and several equal ones at once."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.errors import Unsupported
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.lab.sim.codec import SimulatedCodec
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.executor import SimulatedExecutor
from agentrt.lab.sim.outputs import GivenOutput
from agentrt.lab.sim.simulation import BEGIN_S, Setup
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import End, StepRecord

LENGTHS = (5, 40, 23)


def served(
    costs: SimCosts, most_steps: int, kv_tokens: int = 4096, marks: tuple[int, ...] = ()
) -> tuple[int, list[StepRecord], dict[RequestId, tuple[int, ...]], dict[RequestId, End], float]:
    """Batches, steps, outputs, ends and the last instant of three requests."""
    config, clock = Setup(costs, kv_tokens).engine_config(), FakeClock(BEGIN_S)
    executor = SimulatedExecutor(config, costs, SimulatedCodec())
    core = EngineCore(config, clock, executor)
    for at, length in enumerate(LENGTHS):
        request_id = RequestId(at)
        ids = range(1000 * at, 1000 * at + length)
        executor.expect(request_id, GivenOutput(ids, marks=marks if at == 1 else ()))
        prompt = TokenPrompt(tuple(range(10_000 * (at + 1), 10_000 * (at + 1) + 30)))
        how = SamplingParams(max_tokens=length)
        core.submit(GenerateRequest(request_id, RunId("r"), NodeId(f"n{at}"), "s", prompt, how))
    batches = 0
    records: list[StepRecord] = []
    outputs: dict[RequestId, tuple[int, ...]] = defaultdict(tuple)
    ends: dict[RequestId, End] = {}
    while (step := core.begin_step(most_steps)) is not None:
        batches += 1
        clock.advance(step.batch.spans[-1].ended_s - clock.now_s())
        for done in core.end_step(step):
            assert done.step is not None
            records.append(done.step)
            for delta in done.deltas:
                outputs[delta.request_id] += delta.token_ids
            ends.update((end.request_id, end) for end in done.ends)
    assert executor.totals.steps == len(records)
    return batches, records, dict(outputs), ends, clock.now_s()


@pytest.mark.parametrize("kv_tokens", [4096, 160])
@pytest.mark.parametrize("marks", [(), (7, 30)])
def test_equal_steps_at_once_are_those_one_by_one(
    kv_tokens: int, marks: tuple[int, ...], costs: SimCosts
) -> None:
    """In each record, token and ledger; in little memory, and with lengths that are waited for."""
    costs = dataclasses.replace(costs, gap_s=1e-3, gap_row_s=1e-4)
    leapt, plain = (served(costs, most, kv_tokens, marks) for most in (1 << 20, 1))
    assert leapt[1:] == plain[1:]
    assert leapt[0] < plain[0] == len(plain[1])
    assert [len(ids) for _, ids in sorted(plain[2].items())] == list(LENGTHS)


def test_no_batch_is_longer_than_it_may_be(costs: SimCosts) -> None:
    assert served(costs, 4)[0] > served(costs, 1 << 20)[0]


def test_a_simulated_engine_has_no_logits(costs: SimCosts) -> None:
    executor = SimulatedExecutor(Setup(costs, 64).engine_config(), costs, SimulatedCodec())
    with pytest.raises(Unsupported, match="scores no choices"):
        executor.logits_at([], [])
