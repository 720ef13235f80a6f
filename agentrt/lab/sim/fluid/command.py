"""A fleet over a long time: what `agentrt sim fleet` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from agentrt.analysis.html_page import page, table
from agentrt.analysis.plot import cdf
from agentrt.base.errors import UsageError
from agentrt.lab.sim.command import SimRequest
from agentrt.lab.sim.costs import load_costs
from agentrt.lab.sim.fluid.compare import Compared, compare, plain
from agentrt.lab.sim.fluid.fleet import Fleet, FleetOutcome, FleetSetup
from agentrt.lab.sim.fluid.gate import FleetOrder
from agentrt.lab.sim.fluid.library import Floats, Ints, library_of
from agentrt.lab.sim.fluid.routing import Routing, routing_named
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup

SCHEMA = "agentrt.sim.fleet/1"
COMPARED_ENGINES = 8
_COMPARED_LOADS = (0.3, 0.6, 0.9)
_SAMPLES = 4000

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FleetAsked:
    """A fleet as asked for.

    Attributes:
        asked: Mix and machine; its programs are a library to draw from.
        programs: How many arrive.
        engines: How many there are.
        load: Rate of arrival by what the engines could do, about.
        kv_tokens: Memory of each engine.
        routings: To be compared.
        gate_share: Of the memory, for programs that began; 0 lets all in.
        order: At the gate.
        seed: Of arrivals.
        compared: Programs for the comparison with the step mode; 0 leaves it out.
    """

    asked: SimRequest
    programs: int
    engines: int
    load: float
    kv_tokens: int
    routings: tuple[Routing, ...]
    gate_share: float
    order: FleetOrder
    seed: int
    compared: int

    def check(self) -> None:
        """That this can be run.

        Raises:
            UsageError: It cannot.
        """
        if self.programs < 1 or self.engines < 1 or not 0 < self.load <= 2 or self.kv_tokens < 1:
            raise UsageError(
                f"{self.programs} programs on {self.engines} engines at a load of {self.load} "
                f"with {self.kv_tokens} tokens of memory cannot be simulated",
                hint="Give at least one of each, and a load above 0 and at most 2",
            )
        for routing in self.routings:
            routing_named(routing)


def run_fleet(asked: FleetAsked, command: Sequence[str], tell: Tell) -> dict[str, Any]:
    """Simulate, and give the file's content.

    Raises:
        UsageError: Something was asked for that there is not.
    """
    asked.check()
    costs = load_costs(asked.asked.costs)
    traces = asked.asked.mixed().drawn(asked.seed)
    library = library_of(traces)
    service_s = sum(sum(service_of(one, costs.step).values()) for one in traces) / len(traces)
    rate = asked.load * asked.engines / service_s
    random = np.random.default_rng(asked.seed)
    arrived_s: Floats = np.cumsum(random.exponential(1 / rate, asked.programs))
    program: Ints = random.integers(library.programs, size=asked.programs)
    tell(f"{asked.programs} programs at {rate:.4g} a second on {asked.engines} engines")
    found = {}
    for routing in asked.routings:
        setup = FleetSetup(
            costs,
            asked.kv_tokens,
            asked.engines,
            routing=routing,
            gate_share=asked.gate_share,
            order=asked.order,
            step_tokens=asked.asked.step_tokens,
            max_running=asked.asked.max_running,
            seed=asked.seed,
        )
        began_s = time.perf_counter()
        outcome = Fleet(setup, library).run(arrived_s, program)
        found[routing] = _told(outcome, library.shapes, time.perf_counter() - began_s)
        tell(f"{routing}: {_line(found[routing])}")
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "command": list(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "about": asked.asked.about(costs),
        "programs": asked.programs,
        "engines": asked.engines,
        "kv_tokens": asked.kv_tokens,
        "gate_share": asked.gate_share,
        "order": asked.order,
        "rate": rate,
        "seed": asked.seed,
        "routings": found,
    }
    if asked.compared:
        result["against_steps"] = _against_steps(asked, costs_rate=1 / service_s, tell=tell)
    return result


def fleet_page(found: dict[str, Any]) -> str:
    """The result as HTML."""
    rows = [
        (
            routing,
            *(f"{one[name]:.3g}" for name in ("mean_s", "p50_s", "p95_s", "p99_s", "busy")),
            f"{one['computed_again']:.3f}",
            f"{one['took_s']:.0f}",
        )
        for routing, one in found["routings"].items()
    ]
    head = ("routing", "mean, s", "p50", "p95", "p99", "busy", "computed again", "took, s")
    parts = [
        f"<p>{found['programs']} programs, {found['rate']:.4g} a second, on {found['engines']} "
        f"engines with {found['kv_tokens']} tokens of KV memory each, by rates.</p>",
        table(head, rows),
        cdf(
            "Compound latency",
            {name: one["sample_s"] for name, one in found["routings"].items()},
            x="seconds",
            log_x=True,
        ),
    ]
    if "against_steps" in found:
        parts += [
            f"<h2>Against the step mode, on {COMPARED_ENGINES} engines</h2>",
            table(
                ("programs a second", "busy", "mean", "p50", "p95", "p99"),
                [
                    (
                        f"{one['rate']:.3g}",
                        f"{one['busy']:.2f}",
                        *(f"{one[name]:+.1%}" for name in ("mean", "p50", "p95", "p99")),
                    )
                    for one in found["against_steps"]
                ],
            ),
        ]
    return page("A fleet in the simulator", parts)


def _told(outcome: FleetOutcome, shapes: Sequence[str], took_s: float) -> dict[str, Any]:
    latency_s = outcome.latency_s
    quantiles = np.quantile(latency_s, (0.5, 0.95, 0.99))
    every = max(1, len(latency_s) // _SAMPLES)
    return {
        "mean_s": float(latency_s.mean()),
        "p50_s": float(quantiles[0]),
        "p95_s": float(quantiles[1]),
        "p99_s": float(quantiles[2]),
        "busy": float(outcome.busy_s.mean() / outcome.span_s),
        "computed_again": outcome.again_tokens / max(1.0, outcome.prompt_tokens),
        "output_tokens": outcome.output_tokens,
        "held_s": float(outcome.held_s.mean()),
        "span_s": outcome.span_s,
        "ticks": outcome.ticks,
        "took_s": took_s,
        "by_shape_s": {
            name: float(latency_s[outcome.shape == at].mean())
            for at, name in enumerate(shapes)
            if (outcome.shape == at).any()
        },
        "sample_s": [round(value, 4) for value in latency_s[::every].tolist()],
    }


def _line(told: dict[str, Any]) -> str:
    return (
        f"mean {told['mean_s']:.2f} s, p99 {told['p99_s']:.1f} s, busy {told['busy']:.2f}, "
        f"computed again {told['computed_again']:.1%}, took {told['took_s']:.0f} s"
    )


def _against_steps(asked: FleetAsked, costs_rate: float, tell: Tell) -> list[dict[str, float]]:
    """Both modes, served as requests come, at three loads."""
    one = asked.asked
    setup = Setup(
        load_costs(one.costs),
        asked.kv_tokens,
        engines=COMPARED_ENGINES,
        step_tokens=one.step_tokens,
        max_running=one.max_running,
        scheduler=plain(),
    )
    programs = one.mixed().drawn(asked.seed + 1)[: asked.compared]
    rates = [load * costs_rate * COMPARED_ENGINES for load in _COMPARED_LOADS]
    found = []
    for compared in compare(setup, programs, rates, seed=asked.seed):
        found.append(_errors(compared))
        tell(
            f"against steps: {compared.mean_error:+.1%} of the mean at {compared.rate:.3g} a second"
        )
    return found


def _errors(one: Compared) -> dict[str, float]:
    return {
        "rate": one.rate,
        "busy": one.busy,
        "step_mean_s": float(one.step_s.mean()),
        "mean": one.mean_error,
        "p50": one.error(0.5),
        "p95": one.error(0.95),
        "p99": one.error(0.99),
    }
