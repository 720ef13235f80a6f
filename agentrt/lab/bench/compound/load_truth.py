"""The future of programs for a policy that foresees: service and KV need, as a replay knows them.

Other policies are told nothing: the limit of an output is that of its call site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from agentrt.base.record import record
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.sim.alone import AMPLE_TOKENS, played_alone
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.fit import ObservedSteps, fit
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.true_kv_need import TrueKvNeed
from agentrt.lab.workloads.site_limits import SiteLimits
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.lab.workloads.trace import ProgramTrace
from agentrt.scheduler.estimates.step_model import StepTime

_MOST_STEPS = 20_000  # steps that a fit looks at


@record
class Truth:
    """The future of a program.

    Attributes:
        services_s: Seconds that each call takes of an engine, by name.
        kv: KV that it needs.
    """

    services_s: Mapping[str, float]
    kv: TrueKvNeed


def step_time(steps: Sequence[StepSample]) -> StepTime:
    """The time of a step by its work, fitted to steps of an engine.

    Raises:
        UsageError: There are too few steps.
    """
    every = 1 + len(steps) // _MOST_STEPS
    return fit(
        [
            ObservedSteps(
                1,
                StepWork(one.prefill_tokens, one.decode_tokens, one.kv_tokens, 0),
                one.seconds,
            )
            for one in steps[::every]
        ]
    ).step


def truths_of(programs: Iterable[ProgramTrace], step: StepTime) -> dict[str, Truth]:
    """The future of each program, by name: its KV is that of a simulated engine.

    Args:
        programs: The programs.
        step: Time of a step of the engine.
    """
    setup = Setup(SimCosts(step), AMPLE_TOKENS, page_tokens=PAGE_TOKENS)
    return {one.name: Truth(service_of(one, step), played_alone(one, setup).kv) for one in programs}


def tell(line: ProgramLine, limits: SiteLimits, truth: Truth | None) -> None:
    """Add limits of outputs to a program's line, and its future if it is known.

    With one limit, calls of two programs with equal short prompts would be one request, although
    they differ in length. The seed keeps them apart.
    """
    for node in line["nodes"]:
        if node["kind"] != "call":
            continue
        if (site := (line["shape"], node["site"])) in limits:
            node["limit"] = limits[site]
            node.setdefault("seed", crc32(f"{line['name']}/{node['name']}".encode()))
        if truth is not None:
            node["service_s"] = truth.services_s[node["name"]]
    if truth is not None:
        line["kv_tokens"] = (truth.kv.peak_tokens, truth.kv.longest_tokens)
