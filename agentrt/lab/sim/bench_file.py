"""Measured steps out of a file of `agentrt bench engine --json`.

The file has the time of all prompts of a row together and of its decode steps. The work of these
steps follows from the scheduler of the engine, which plans the same row again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from statistics import median
from typing import Any

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.lab.result_file import read_json
from agentrt.lab.sim.codec import SimulatedCodec
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.executor import SimulatedBatch, SimulatedExecutor
from agentrt.lab.sim.fit import ObservedSteps
from agentrt.lab.sim.outputs import GivenOutput
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt
from agentrt.scheduler.estimates.step_model import StepTime

SCHEMA = "agentrt.bench.engine/1"
_FLOAT32_BYTES, _OTHER_BYTES = 4, 2
_HINT = "Give a file that `agentrt bench engine --json PATH` wrote"


def observed_in(path: Path) -> tuple[list[ObservedSteps], dict[str, Any]]:
    """The measured steps of a file, and facts about its machine.

    Raises:
        UsageError: The file was not written by `agentrt bench engine`.
    """
    content = read_json(path, SCHEMA, _HINT)
    try:
        rows, machine, shape = content["rows"], content["machine"], content["shape"]
        found = [one for row in rows for one in _observed(row)]
        about = {
            "device": machine["processor"],
            "cores": machine["cores"],
            "model": shape["name"],
            "dtypes": sorted({row["dtype"] for row in rows}),
            "kv_token_bytes": _kv_token_bytes(shape, rows[0]["dtype"]),
            "measured_at": content["at"],
            "agentrt": machine["agentrt"],
            "torch": machine["torch"],
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: a row lacks {error}", hint=_HINT) from error
    return found, about


def _kv_token_bytes(shape: dict[str, Any], dtype: str) -> int:
    """Memory of a token's keys and values in all layers."""
    values = 2 * shape["layers"] * shape["kv_heads"] * (shape["hidden"] // shape["heads"])
    return int(values * (_FLOAT32_BYTES if dtype == "float32" else _OTHER_BYTES))


def _observed(row: dict[str, Any]) -> Iterator[ObservedSteps]:
    arm = next(arm for arm in row["arms"] if arm["name"].startswith("agentrt"))
    samples = arm["samples"]
    chunks, decodes = _planned(row, arm["settings"])
    if row["shared_tokens"] == 0:  # else later rounds find the prefix in the cache
        yield ObservedSteps(len(chunks), _sum(chunks), median(one["prefill_s"] for one in samples))
    steps = len(decodes)
    step_s = median(one["decode_s"] / one["decode_steps"] for one in samples)
    yield ObservedSteps(steps, _sum(decodes), step_s * steps)


def _planned(
    row: dict[str, Any], settings: dict[str, Any]
) -> tuple[list[StepWork], list[StepWork]]:
    """The work of a row's steps: of steps with prompt tokens, and of steps that only decode."""
    names = ("kv_pages", "max_running", "step_tokens", "prefill_chunk_tokens")
    config = EngineConfig(
        Path("planned"), **{name: settings[name] for name in names if name in settings}
    )
    clock = FakeClock()
    costs = SimCosts(StepTime(1.0, 0.0, 0.0, 0.0))
    executor = SimulatedExecutor(config, costs, SimulatedCodec())
    core = EngineCore(config, clock, executor)
    shared, own, new = row["shared_tokens"], row["prompt_tokens"], row["new_tokens"]
    for at in range(row["batch"]):
        first = 1_000_000 * (at + 1)
        ids = (*range(1, shared + 1), *range(first, first + own))
        request = GenerateRequest(
            RequestId(at),
            RunId("planned"),
            NodeId(f"n{at}"),
            "planned",
            TokenPrompt(ids),
            SamplingParams(max_tokens=new),
            info=SchedulingInfo(RequestId(at), demanded=True),
        )
        executor.expect(RequestId(at), GivenOutput(range(first + own, first + own + new)))
        core.submit(request)
    chunks: list[StepWork] = []
    decodes: list[StepWork] = []
    while (step := core.begin_step()) is not None:
        batch = step.batch
        assert isinstance(batch, SimulatedBatch)
        (chunks if batch.work.prefill_tokens else decodes).append(batch.work)
        clock.advance(batch.spans[-1].ended_s - clock.now_s())
        core.end_step(step)
    whole = [work for work in decodes if work.decode_tokens == row["batch"]]
    return chunks, whole


def _sum(works: list[StepWork]) -> StepWork:
    return StepWork(*map(sum, zip(*map(astuple, works), strict=True)))
