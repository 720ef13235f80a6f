"""`agentrt sim validate`: the simulator held against the real engine, on this machine."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import anyio
import typer

from agentrt.base.config import EngineConfig
from agentrt.lab.bench.compound.model import BenchModel, bench_model
from agentrt.lab.bench.compound.real_time import real_time
from agentrt.lab.commands.sim_plays import mix_at, player, start_tokens
from agentrt.lab.flags import names, require
from agentrt.lab.progress import log
from agentrt.lab.result_file import commit, machine, write_json, write_text
from agentrt.lab.sim.arms import real_policies
from agentrt.lab.sim.calibrate import calibrate
from agentrt.lab.sim.costs import SimCosts, load_costs
from agentrt.lab.sim.flags import ValidateFlags
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.validate import MOST_ERROR, Validation, validate
from agentrt.lab.sim.validation_page import to_json, validation_page
from agentrt.lab.workloads.shapes import shape_named
from agentrt.lab.workloads.trace import Workload

LOADS = (0.5, 0.3, 0.6, 0.9)
"""Share of what the engine could do, roughly; the first load only warms up."""


def run_validation(flags: ValidateFlags) -> None:
    """Measure, simulate, compare, and write the files.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: A program failed on the engine.
    """
    policies = real_policies(flags.policies)
    few = f"--programs {flags.programs} says nothing"
    require(flags.programs >= 4, few, "Give 4 or more; 24 or so")
    for shape in names(flags.shapes):
        shape_named(shape)
    model = bench_model(flags.shape)
    costs = _costs(model, flags)
    setup = Setup(costs, flags.kv_tokens, start_tokens=start_tokens(model), greedy=True)
    with ExitStack() as stack:
        engine = partial(
            real_time, model, kv_tokens=flags.kv_tokens, threads=flags.threads, stack=stack
        )
        players = {policy: player(engine(policy)) for policy in policies}
        loads = _loads(model, costs, flags)
        found = validate(players, loads, setup, repeats=flags.repeats, log=log)
    about = {
        "machine": machine(),
        "model": model.path.name,
        "costs": costs.to_json(),
        "kv_tokens": flags.kv_tokens,
        "shapes": names(flags.shapes),
        "programs": flags.programs,
        "seed": flags.seed,
        "repeats": flags.repeats,
        "commit": commit(),
    }
    for line in in_words(found):
        typer.echo(line)
    write_json(flags.json_path, to_json(found, about))
    if flags.html_path is not None:
        write_text(flags.html_path, validation_page(found, about))


def in_words(found: Validation) -> list[str]:
    """Orders of policies and errors of percentiles, a line each."""
    lines = []
    for rate, ranking in found.rankings.items():
        order = f"{len(ranking.ranked)} of {len(ranking.pairs)} pairs of policies are ranked"
        if ranking.tau is not None:
            order += f", tau {ranking.tau:.2f}"
        lines.append(f"{rate:.4g}/s: {order} (of all means: {ranking.plain_tau:.2f})")
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        worst = found.worst(share)
        verdict = "within" if worst <= MOST_ERROR else "beyond"
        lines += [
            f"{name}: at worst {worst:.1%} off, {verdict} {MOST_ERROR:.0%}",
            f"  within it {found.within(share)} of {len(found.cases)} cases",
        ]
        if len(found.cases[0].measured_s) > 1:
            lines.append(f"  one repeat on the engine by another: {found.repeats_within(share)}")
    return lines


def _costs(model: BenchModel, flags: ValidateFlags) -> SimCosts:
    if flags.costs:
        return load_costs(flags.costs)
    log("measuring what steps take")
    config = EngineConfig(model.path, threads=flags.threads)
    return anyio.run(partial(calibrate, config, seconds=flags.seconds, log=log))


def _loads(
    model: BenchModel, costs: SimCosts, flags: ValidateFlags
) -> list[tuple[float, Workload]]:
    shapes = names(flags.shapes)
    return [
        mix_at(load, model, costs, shapes, flags.programs, flags.seed + number)
        for number, load in enumerate(LOADS)
    ]
