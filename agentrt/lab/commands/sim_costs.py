"""`agentrt sim fit` and `agentrt sim calibrate`: the costs of a simulated engine."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import typer

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.compound.model import EMBEDDED, bench_model
from agentrt.lab.bench.compound.real_time import real_time
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.commands.sim_plays import mix_at, player, start_tokens
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.progress import log
from agentrt.lab.result_file import commit, machine, write_json
from agentrt.lab.sim.bench_file import observed_in
from agentrt.lab.sim.calibrate import calibrate
from agentrt.lab.sim.calibration_plays import (
    FIT_POLICIES,
    LOADS,
    WARM_LOAD,
    CalibrationPlays,
    fit_to_plays,
    play_all,
)
from agentrt.lab.sim.copies import measure_copies
from agentrt.lab.sim.costs import HALF_ON_TWO_CORES, MEMORY_BYTES_S, SimCosts
from agentrt.lab.sim.fit import fit
from agentrt.lab.sim.flags import CalibrateFlags, FitFlags
from agentrt.lab.sim.machine_state import measure_state
from agentrt.lab.sim.simulation import Setup


def write_fitted(flags: FitFlags) -> None:
    """Fit the costs of steps to a file of the engine's bench."""
    observed, about = observed_in(flags.bench_file)
    found = fit(observed)
    about |= {
        "commit": commit(),
        "samples": found.observations,
        "measured_by_computed": found.residuals,
        "around": "typical, not measured: `sim calibrate` measures it",
    }
    costs = replace(
        HALF_ON_TWO_CORES,  # the runtime's own time is not in such a file
        step=found.step,
        pair_s=found.pair_s,
        copy_token_s=about["kv_token_bytes"] / MEMORY_BYTES_S,
        kv_token_bytes=about["kv_token_bytes"],
        about=about,
    )
    _write(flags.out, costs.to_json())


def write_calibrated(flags: CalibrateFlags) -> None:
    """Measure the costs of steps, of the runtime and of copies.

    Raises:
        UsageError: A flag is out of range.
    """
    one = flags.model is None or not flags.shape
    require(one, "--model and --shape are two models", "Give one of them")
    check_known("--dtype", (flags.dtype,), ("auto", "float32", "bfloat16", "float16"))
    check_known("--device", (flags.device,), ("cpu", "cuda"))
    path = flags.model or Path(embedded.path())
    if flags.shape:
        path = checkpoint(shape_named(flags.shape))
    config = EngineConfig(
        path,
        dtype=flags.dtype,  # type: ignore[arg-type]  # checked
        threads=flags.threads,
        device=flags.device,  # type: ignore[arg-type]  # checked
    )
    setting = {"dtype": flags.dtype, "threads": flags.threads}
    about = {"commit": commit(), "machine": machine(), **setting}
    measure = partial(calibrate, seconds=flags.seconds, kv_tokens=flags.kv_tokens, about=about)
    found = anyio.run(partial(measure, config, log=log))
    if (copies := anyio.run(measure_copies, config)) is not None:
        found = replace(found, copy_token_s=copies.token_s, kv_token_bytes=copies.token_bytes)
    if flags.plays:
        found = _fitted_to_plays(found, config, flags)
    _write(flags.out, found.to_json())


def _fitted_to_plays(costs: SimCosts, config: EngineConfig, flags: CalibrateFlags) -> SimCosts:
    """The costs fitted to plays, with the state of the machine after these."""
    require(flags.plays >= 4, f"--plays {flags.plays} says nothing", "Give 4 or more; 24 or so")
    require(
        flags.model is None,
        f"--plays {flags.plays} cannot draw programs for --model",
        "Give --shape, or neither of them for the embedded model",
    )
    model = bench_model(flags.shape or EMBEDDED)
    seeds = tuple(range(flags.seed, flags.seed + 1 + len(LOADS)))
    shapes = tuple(names(flags.play_shapes))
    at = partial(mix_at, model=model, costs=costs, shapes=shapes, programs=flags.plays)
    loads = zip((WARM_LOAD, *LOADS), seeds, strict=True)
    workloads = [at(load, seed=seed)[1] for load, seed in loads]
    with ExitStack() as stack:
        engine = partial(
            real_time, model, kv_tokens=flags.play_kv_tokens, threads=flags.threads, stack=stack
        )
        players = {policy: player(engine(policy)) for policy in FIT_POLICIES}
        played = play_all(players, workloads, log)
    setup = Setup(costs, flags.play_kv_tokens, start_tokens=start_tokens(model), greedy=True)
    fitted, factors = fit_to_plays(setup, played, log)
    state = anyio.run(measure_state, replace(config, kv_pages=flags.play_kv_tokens // PAGE_TOKENS))
    plays = CalibrationPlays(
        model.path.name, shapes, flags.plays, seeds, LOADS, FIT_POLICIES, flags.play_kv_tokens
    )
    about = {"plays": asdict(plays), "factors": factors, "state": asdict(state)}
    return replace(fitted, about={**costs.about, **about})


def _write(path: Path, costs: dict[str, Any]) -> None:
    """Write costs, and print those of a step."""
    write_json(path, costs)
    typer.echo(json.dumps(costs["step"] | {"pair_s": costs["pair_s"]}))
    typer.echo(f"measured by computed: {costs['about'].get('measured_by_computed')}")
