"""`agentrt sim fleet`: a fleet of engines over a long time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agentrt.analysis.html_page import heading, page, paragraphs, table_of
from agentrt.analysis.plot import cdf
from agentrt.analysis.statistics import Floats
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.lab.flags import check_known, names
from agentrt.lab.progress import WorkPace
from agentrt.lab.result_file import header
from agentrt.lab.sim.arms import PLAIN
from agentrt.lab.sim.command import about, mixed_of
from agentrt.lab.sim.costs import load_costs
from agentrt.lab.sim.flags import FleetFlags
from agentrt.lab.sim.fluid.compare import compare
from agentrt.lab.sim.fluid.fleet import Fleet, FleetOutcome
from agentrt.lab.sim.fluid.library import Ints, library_of
from agentrt.lab.sim.fluid.routing import routing_named
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup

SCHEMA = "agentrt.sim.fleet/1"
COMPARED_ENGINES = 8
_COMPARED_LOADS = (0.3, 0.6, 0.9)
_SAMPLES = 4000
_PERCENTILES = (50, 95, 99)

Log = Callable[[str], None]
Json = dict[str, Any]


def check(flags: FleetFlags) -> None:
    """Check the flags.

    Raises:
        UsageError: A flag is out of range.
    """
    check_known("--order", (flags.order,), ("fcfs", "rwa"))
    for routing in names(flags.routing):
        routing_named(routing)


def run_fleet(flags: FleetFlags, log: Log) -> Json:
    """Simulate; returns the file's content.

    Raises:
        UsageError: A flag is out of range.
    """
    check(flags)
    costs, mixed = load_costs(flags.costs), mixed_of(flags, flags.library)
    traces = mixed.drawn(flags.seed)
    library = library_of(traces)
    service_s = sum(sum(service_of(one, costs.step).values()) for one in traces) / len(traces)
    rate = flags.load * flags.engines / service_s
    random = np.random.default_rng(flags.seed)
    arrived_s: Floats = np.cumsum(random.exponential(1 / rate, flags.programs))
    program: Ints = random.integers(library.programs, size=flags.programs)
    log(f"{flags.programs} programs at {rate:.4g} a second on {flags.engines} engines")
    order: PolicyName = "rwa" if flags.order == "rwa" else "fcfs"
    gated = SchedulerConfig(policy=order, gate_share=flags.gate_share)
    found = {}
    pace = WorkPace("routings", len(names(flags.routing)), log)
    for routing in names(flags.routing):
        began_s = time.perf_counter()
        fleet = Fleet(_setup(flags, flags.engines, gated), library, routing, flags.seed)
        outcome = fleet.run(arrived_s, program)
        took_s = time.perf_counter() - began_s
        found[routing] = one = _figures(outcome, library.shapes) | {"took_s": took_s}
        pace.done(
            f"{routing}: mean {one['mean_s']:.2f} s, p99 {one['p99_s']:.1f} s, busy "
            f"{one['busy']:.2f}, computed again {one['computed_again']:.1%}, took {took_s:.0f} s"
        )
    given = ("programs", "engines", "kv_tokens", "gate_share", "order", "seed")
    result: Json = {
        **header(SCHEMA),
        "about": about(flags, mixed),
        **{name: getattr(flags, name) for name in given},
        "rate": rate,
        "routings": found,
    }
    if flags.compared:
        result["against_steps"] = _against_steps(flags, 1 / service_s, log)
    return result


def fleet_page(found: Json) -> str:
    """The page of a fleet."""
    routings: Mapping[str, Json] = found["routings"]
    columns: dict[str, Callable[[tuple[str, Json]], str]] = {
        "routing": lambda one: one[0],
        "mean, s": lambda one: f"{one[1]['mean_s']:.3g}",
        "p50": lambda one: f"{one[1]['p50_s']:.3g}",
        "p95": lambda one: f"{one[1]['p95_s']:.3g}",
        "p99": lambda one: f"{one[1]['p99_s']:.3g}",
        "busy": lambda one: f"{one[1]['busy']:.3g}",
        "computed again": lambda one: f"{one[1]['computed_again']:.3f}",
        "took, s": lambda one: f"{one[1]['took_s']:.0f}",
    }
    samples = {name: one["sample_s"] for name, one in routings.items()}
    parts = [
        paragraphs(
            f"{found['programs']} programs, {found['rate']:.4g} a second, on {found['engines']} "
            f"engines with {found['kv_tokens']} tokens of KV memory each, by rates."
        ),
        table_of(routings.items(), columns),
        cdf("Compound latency", samples, x="seconds", log_x=True),
    ]
    if "against_steps" in found:
        errors: dict[str, Callable[[Json], str]] = {
            "programs a second": lambda one: f"{one['rate']:.3g}",
            "busy": lambda one: f"{one['busy']:.2f}",
            "mean": lambda one: f"{one['mean']:+.1%}",
            "p50": lambda one: f"{one['p50']:+.1%}",
            "p95": lambda one: f"{one['p95']:+.1%}",
            "p99": lambda one: f"{one['p99']:+.1%}",
        }
        parts.append(heading(f"Against the step mode, on {COMPARED_ENGINES} engines"))
        parts.append(table_of(found["against_steps"], errors))
    return page("A fleet in the simulator", parts)


def _setup(flags: FleetFlags, engines: int, scheduler: SchedulerConfig) -> Setup:
    return Setup(
        load_costs(flags.costs),
        flags.kv_tokens,
        engines=engines,
        step_tokens=flags.step_tokens,
        max_running=flags.max_running,
        scheduler=scheduler,
    )


def _figures(outcome: FleetOutcome, shapes: Sequence[str]) -> Json:
    latency_s = outcome.latency_s
    every = max(1, len(latency_s) // _SAMPLES)
    return {
        "mean_s": float(latency_s.mean()),
        **{f"p{one}_s": float(np.quantile(latency_s, one / 100)) for one in _PERCENTILES},
        "busy": float(outcome.busy_s.mean() / outcome.span_s),
        "computed_again": outcome.again_tokens / max(1.0, outcome.prompt_tokens),
        "output_tokens": outcome.output_tokens,
        "held_s": float(outcome.held_s.mean()),
        "span_s": outcome.span_s,
        "ticks": outcome.ticks,
        "by_shape_s": {
            name: float(latency_s[outcome.shape == at].mean())
            for at, name in enumerate(shapes)
            if (outcome.shape == at).any()
        },
        "sample_s": latency_s[::every].round(4).tolist(),
    }


def _against_steps(flags: FleetFlags, engine_rate: float, log: Log) -> list[dict[str, float]]:
    """Errors of the fluid mode at three loads, with requests in the order of arrival."""
    setup = _setup(flags, COMPARED_ENGINES, PLAIN)
    programs = mixed_of(flags, flags.library).drawn(flags.seed + 1)[: flags.compared]
    rates = [load * engine_rate * COMPARED_ENGINES for load in _COMPARED_LOADS]
    found = []
    for one in compare(setup, programs, rates, seed=flags.seed):
        found.append(
            {
                "rate": one.rate,
                "busy": one.busy,
                "step_mean_s": float(one.step_s.mean()),
                "mean": one.mean_error,
                **{f"p{share}": one.error(share / 100) for share in _PERCENTILES},
            }
        )
        log(f"against steps: {one.mean_error:+.1%} of the mean at {one.rate:.3g} a second")
    return found
