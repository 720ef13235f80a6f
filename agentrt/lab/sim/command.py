"""What `agentrt sim` does with its flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.operating_point import operating_point
from agentrt.lab.sim.arms import SimArm, arms_named
from agentrt.lab.sim.costs import SimCosts, load_costs
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.study import Mixed, Study
from agentrt.lab.sim.sweep import Sweep, sweep
from agentrt.lab.workloads.mixes import OPEN_MIX
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import shape_named

Tell = Callable[[str], None]

SCALES: Mapping[str, Scale] = {
    "half-cpu": Scale(0.125, 0.125, 0.125, 0.5, 0.01),
    "8b-h200": Scale(1.0, 1.0, 0.25, 1.0, 0.02),
}
"""For named costs: what such a machine gets through in minutes of its time. The large one has
contexts of life size: those of coding agents are divided by eight already where sizes stand."""


@dataclass(frozen=True, slots=True)
class SimRequest:
    """What the commands have in common.

    Attributes:
        costs: A file, or named costs.
        workload: `mix`, or shapes separated by commas.
        programs: How many a seed.
        tenants: Among whom they are dealt out.
        scale: Factors that differ from those of the costs, by name.
        max_running: Most sequences that run at once.
        step_tokens: Most tokens of a step.
        bursts: Deviation of the gaps between arrivals by their mean; 0 for arrivals by chance.
        host_kv_tokens: Memory of the host for KV that the engine has no room for.
    """

    costs: str
    workload: str
    programs: int
    tenants: int
    scale: Mapping[str, float]
    max_running: int = 64
    step_tokens: int = 2048
    bursts: float = 0.0
    host_kv_tokens: int = 0

    def study(self, *, warm: bool) -> Study:
        """The mix on its machine.

        Raises:
            UsageError: A name or a number is out of place.
        """
        costs = load_costs(self.costs)
        if self.host_kv_tokens < 0:
            raise UsageError(
                f"--host-kv-tokens {self.host_kv_tokens} is no memory",
                hint="Give tokens, or 0 to keep no KV on the host",
            )
        setup = Setup(
            costs,
            0,
            self.host_kv_tokens,
            max_running=self.max_running,
            step_tokens=self.step_tokens,
        )
        return Study(costs, self.mixed(), setup, warm=warm)

    def mixed(self) -> Mixed:
        """The programs."""
        if self.programs < 10:
            raise UsageError(
                f"{self.programs} programs are too few to say anything", hint="Give 10 or more"
            )
        for flag in ("tenants", "max_running", "step_tokens"):
            if getattr(self, flag) < 1:
                raise UsageError(
                    f"--{flag.replace('_', '-')} {getattr(self, flag)} is out of range",
                    hint="Give 1 or more",
                )
        if self.bursts and not self.bursts > 1:
            raise UsageError(
                f"--bursts {self.bursts} are none", hint="Give more than 1, or 0 for chance"
            )
        base = SCALES.get(self.costs, SCALES["half-cpu"])
        known = asdict(base)
        odd = [name for name in self.scale if name not in known]
        if odd:
            raise UsageError(
                f"--scale {odd[0]} is not known", hint=f"Use some of {', '.join(known)}"
            )
        scale = Scale(**{**known, **self.scale})
        return Mixed(self.programs, shares_named(self.workload), scale, self.tenants, self.bursts)

    def about(self, costs: SimCosts) -> dict[str, Any]:
        """What was asked, for files and pages."""
        return {
            "costs": costs.to_json(),
            "workload": self.workload,
            "programs": self.programs,
            "tenants": self.tenants,
            "scale": asdict(self.mixed().scale),
            "max_running": self.max_running,
            "step_tokens": self.step_tokens,
            "bursts": self.bursts,
            "host_kv_tokens": self.host_kv_tokens,
        }


def shares_named(workload: str) -> Mapping[str, float]:
    """Shares of shapes: of the open mix, or equal ones of those that are named.

    Raises:
        UsageError: There is no such shape.
    """
    if workload == "mix":
        return OPEN_MIX
    names = [name.strip() for name in workload.split(",")]
    for name in names:
        shape_named(name)
    return dict.fromkeys(names, 1.0)


def run_sweep(
    asked: SimRequest,
    arms: str,
    *,
    rate: float,
    kv_share: float,
    kv_tokens: int,
    slowdown: float,
    seeds: int,
    warm: bool,
    curves: bool,
    tell: Tell,
) -> Sweep:
    """Find where to compare, unless it is given, and compare.

    Args:
        asked: Mix and machine.
        arms: Names.
        rate: Programs a second; 0 finds it.
        kv_share: Memory by working set, where it is not given.
        kv_tokens: Memory; 0 finds it.
        slowdown: Of fcfs at the rate to be found.
        seeds: How many.
        warm: Whether estimates are learned beforehand.
        curves: Whether to run at rates around it.
        tell: Called with what is being done.

    Raises:
        UsageError: A name or a number is out of place.
    """
    chosen = arms_named(arms)
    if seeds < 1:
        raise UsageError("--seeds 0 compares nothing", hint="Give 1 or more; 5 for a claim")
    study = asked.study(warm=warm)
    operating = operating_point(
        study,
        kv_share=kv_share,
        slowdown=slowdown,
        seeds=seeds,
        rate=rate,
        kv_tokens=kv_tokens,
        tell=tell,
    )
    tell(operating.in_words())
    return sweep(study, chosen, operating, curves=curves, tell=tell)


def run_once(
    asked: SimRequest, arm: SimArm, *, rate: float, kv_tokens: int, seed: int, warm: bool
) -> dict[str, Any]:
    """One arm over one draw of programs: what became of them, as a table's rows."""
    study = asked.study(warm=warm)
    point = study.point(arm, rate or 0.7 * study.full_rate, seed, kv_tokens)
    return {
        "arm": point.arm,
        "rate": point.rate,
        "mean_latency_s": float(point.latency_s.mean()),
        "p99_latency_s": sorted(point.latency_s.tolist())[int(0.99 * (len(point.latency_s) - 1))],
        "mean_slowdown": float(point.slowdown.mean()),
        "cache_hit": point.hit,
        "host_hit": point.host_hit,
        "busy": point.busy,
        "copying": point.copying,
        "steps": point.steps,
        "fairness": point.fairness,
        "working_set_tokens": point.working_set_tokens,
        **{f"mean_{name}": value for name, value in point.sums.items()},
    }
