"""`agentrt sim predict`: latencies predicted, then measured on the real engine of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio
import typer

from agentrt.base.config import EngineConfig, PolicyName
from agentrt.base.errors import UsageError
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.compound.model import BenchModel, bench_model
from agentrt.lab.bench.compound.real_time import real_time
from agentrt.lab.code_version import code_version
from agentrt.lab.commands.sim_plays import mix_at, player, start_tokens
from agentrt.lab.flags import names, require
from agentrt.lab.progress import WorkPace
from agentrt.lab.quiet_machine import QuietMachine
from agentrt.lab.result_file import machine, write_json, write_text
from agentrt.lab.sim.arms import real_policies
from agentrt.lab.sim.calibration_plays import LOADS, WARM_LOAD
from agentrt.lab.sim.costs import SimCosts, load_costs
from agentrt.lab.sim.flags import PredictFlags
from agentrt.lab.sim.machine_state import StateFactors, measure_state, state_in
from agentrt.lab.sim.predicted_plays import CasePlan, predict_and_play
from agentrt.lab.sim.prediction import PredictedCase, line_of, verdicts
from agentrt.lab.sim.prediction_file import PredictionFile, prediction_page, read_prediction
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.validate import Play

_ALL = "all"


def run_prediction(flags: PredictFlags) -> None:
    """Predict, play, judge and write the files, case by case.

    Raises:
        UsageError: A flag is out of range, or the file was measured with something else.
        BenchFailed: A program failed on the engine, or others use the machine.
    """
    require(flags.programs >= 4, f"--programs {flags.programs} says nothing", "Give 4 or more")
    require(flags.plays >= 2, f"--plays {flags.plays} has no halves", "Give 2 or more; 5 or so")
    model = bench_model(flags.shape)
    costs = load_costs(flags.costs)
    calibrated = state_in(costs)
    _check_other_programs(costs, flags)
    plans = _plans(model, costs, real_policies(flags.policies), flags)
    wanted = list(plans) if flags.cases == _ALL else names(flags.cases)
    for name in wanted:
        require(name in plans, f"there is no case {name!r}", f"Use some of {', '.join(plans)}")
    found = _file(_identity(model, costs, flags), flags)
    config = EngineConfig(
        model.path, kv_pages=flags.kv_tokens // PAGE_TOKENS, threads=flags.threads
    )
    setup = Setup(costs, flags.kv_tokens, start_tokens=start_tokens(model), greedy=True)
    quiet = QuietMachine(flags.busy)

    def probe() -> StateFactors:
        return anyio.run(measure_state, config).since(calibrated)

    left = found.left(wanted)
    pace = WorkPace("cases", len(left))
    for name in left:
        busy_cores = quiet.check()
        with ExitStack() as stack:
            case = _played(plans[name], setup, probe, model, stack, flags)
        found.cases[name] = case
        pace.done(f"{line_of(case)}; others took {busy_cores or 0.0:.2f} cores")
        write_json(flags.resume, found.to_json())
    for line in verdicts(list(found.cases.values())):
        typer.echo(line)
    write_json(flags.json_path, found.to_json())
    if flags.html_path is not None:
        write_text(flags.html_path, prediction_page(found))


def _played(
    plan: CasePlan,
    setup: Setup,
    probe: Callable[[], StateFactors],
    model: BenchModel,
    stack: ExitStack,
    flags: PredictFlags,
) -> PredictedCase:
    """Play and predict a case; the stack closes its engine."""

    def open_engine() -> Play:
        kv_tokens, threads = flags.kv_tokens, flags.threads
        serve = real_time(model, plan.policy, kv_tokens=kv_tokens, threads=threads, stack=stack)
        return player(serve)

    plays, attempts = flags.plays, flags.attempts
    return predict_and_play(plan, setup, probe, open_engine, plays=plays, attempts=attempts)


def _check_other_programs(costs: SimCosts, flags: PredictFlags) -> None:
    """Check that the costs were calibrated on other draws than those that are predicted."""
    seeds = set(costs.about["plays"]["seeds"]) if "plays" in costs.about else set()
    mine = range(flags.seed, flags.seed + 1 + len(LOADS))
    if not seeds.isdisjoint(mine):
        raise UsageError(
            f"--seed {flags.seed} draws programs that {flags.costs} was calibrated on",
            hint="Give a --seed that is further away",
        )


def _plans(
    model: BenchModel, costs: SimCosts, policies: list[PolicyName], flags: PredictFlags
) -> dict[str, CasePlan]:
    shapes = names(flags.shapes)
    at = partial(mix_at, model=model, costs=costs, shapes=shapes)
    _, before = at(WARM_LOAD, programs=max(4, flags.programs // 2), seed=flags.seed)
    plans: dict[str, CasePlan] = {}
    for number, load in enumerate(LOADS, start=1):
        rate, workload = at(load, programs=flags.programs, seed=flags.seed + number)
        for policy in policies:
            name = f"{policy}@{load}"
            plans[name] = CasePlan(name, policy, rate, before, workload)
    return plans


def _identity(model: BenchModel, costs: SimCosts, flags: PredictFlags) -> dict[str, Any]:
    """Facts that are the same in all parts of a file."""
    here: Mapping[str, Any] = machine()
    return {
        "machine": {name: value for name, value in here.items() if name != "load_average"},
        "code": code_version(),
        "costs": costs.to_json(),
        "model": model.path.name,
        "shapes": names(flags.shapes),
        "programs": flags.programs,
        "kv_tokens": flags.kv_tokens,
        "threads": flags.threads,
        "seed": flags.seed,
        "plays": flags.plays,
        "attempts": flags.attempts,
        "loads": list(LOADS),
    }


def _file(identity: dict[str, Any], flags: PredictFlags) -> PredictionFile:
    if flags.resume is not None and flags.resume.exists():
        return read_prediction(flags.resume, identity)
    return PredictionFile(identity)
