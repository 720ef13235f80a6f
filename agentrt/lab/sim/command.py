"""`agentrt sim run` and `agentrt sim sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.flags import factors, rate_of
from agentrt.lab.result_file import commit
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.costs import load_costs
from agentrt.lab.sim.flags import MixFlags, RunFlags, StudyFlags, SweepFlags
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.study import Mixed, Study
from agentrt.lab.sim.sweep import Sweep, sweep
from agentrt.lab.workloads.mixes import OPEN_MIX
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import shape_named

Log = Callable[[str], None]

SCALES: Mapping[str, Scale] = {
    "half-cpu": Scale(0.125, 0.125, 0.125, 0.5, 0.01),
    "8b-h200": Scale(1.0, 1.0, 0.25, 1.0, 0.02),
}
"""Scales of named costs, with which a sweep takes minutes of the machine's time. The large machine
has contexts of life size; `sizes` divides those of coding agents by eight."""


def study_of(flags: StudyFlags, log: Log = lambda text: None, *, accounts: bool = False) -> Study:
    """The mix with its engine.

    Args:
        flags: Mix and engine.
        log: Called with the progress of runs that take long.
        accounts: Whether to account for what has the memory of the engine.

    Raises:
        UsageError: A name is unknown, or a number is out of range.
    """
    costs = load_costs(flags.costs)
    setup = Setup(
        costs,
        0,
        flags.host_kv_tokens,
        max_running=flags.max_running,
        step_tokens=flags.step_tokens,
        accounts=accounts,
    )
    mixed = mixed_of(flags, flags.programs, tenants=flags.tenants, bursts=flags.bursts)
    return Study(costs, mixed, setup, warm=flags.warm, log=log)


def mixed_of(flags: MixFlags, programs: int, *, tenants: int = 1, bursts: float = 0.0) -> Mixed:
    """The mix of programs.

    Args:
        flags: Shapes and scale.
        programs: Programs of a draw.
        tenants: Number of tenants, which share the programs.
        bursts: Deviation of the gaps between arrivals by their mean, or 0.

    Raises:
        UsageError: A name is unknown, or a number is out of range.
    """
    if programs < 10:
        raise UsageError(f"{programs} programs are too few to say anything", hint="Give 10 or more")
    if bursts and not bursts > 1:
        raise UsageError(f"--bursts {bursts} are none", hint="Give more than 1, or 0 for chance")
    base = SCALES.get(flags.costs, SCALES["half-cpu"])
    scale = base.with_factors(factors(flags.scale, "--scale"))
    return Mixed(programs, shares_named(flags.workload), scale, tenants, bursts)


def about(flags: MixFlags, mixed: Mixed, host_kv_tokens: int = 0) -> dict[str, Any]:
    """The mix and its engine, for files and pages."""
    return {
        "costs": load_costs(flags.costs).to_json(),
        "workload": flags.workload,
        "programs": mixed.programs,
        "tenants": mixed.tenants,
        "scale": asdict(mixed.scale),
        "max_running": flags.max_running,
        "step_tokens": flags.step_tokens,
        "bursts": mixed.bursts,
        "host_kv_tokens": host_kv_tokens,
    }


def shares_named(workload: str) -> Mapping[str, float]:
    """Shares of the open mix, or equal ones of the named shapes.

    Raises:
        UsageError: There is no such shape.
    """
    if workload == "mix":
        return OPEN_MIX
    names = [name.strip() for name in workload.split(",")]
    for name in names:
        shape_named(name)
    return dict.fromkeys(names, 1.0)


def run_sweep(flags: SweepFlags, log: Log) -> tuple[Sweep, dict[str, Any]]:
    """Find the operating point, unless it is given, and compare the arms; returns the settings too.

    Raises:
        UsageError: A name is unknown, or a number is out of range.
    """
    arms, rate = arms_named(flags.policies), rate_of(flags.rates, "--rates")
    study = study_of(flags, log)
    point = study.operating_point(
        kv_share=flags.kv_share,
        slowdown=flags.slowdown,
        seeds=flags.seeds,
        rate=rate,
        kv_tokens=flags.kv_tokens,
        log=log,
    )
    log(point.in_words())
    found = sweep(study, arms, point, curves=flags.curves, log=log)
    setting = about(flags, study.mixed, flags.host_kv_tokens)
    return found, {**setting, "commit": commit(), "warm": flags.warm}


def run_once(flags: RunFlags, log: Log) -> dict[str, Any]:
    """One arm over one draw of programs: its figures as rows of a table.

    Raises:
        UsageError: A name is unknown, or a number is out of range.
    """
    arms = arms_named(flags.policy)
    if len(arms) != 1:
        raise UsageError("`sim run` takes one policy", hint="Use `sim sweep` to compare several")
    study = study_of(flags, log, accounts=True)
    rate = flags.rate or 0.7 * study.full_rate
    point = study.point(arms[0], rate, flags.seed, flags.kv_tokens)
    return {
        "arm": point.arm,
        **point.figures(),
        **{f"mean_{name}": value for name, value in point.sums.items()},
        **{f"memory_{name}": value for name, value in point.memory.items()},
    }
