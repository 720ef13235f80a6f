"""`agentrt sim`: many programs in virtual time, with the scheduler of production."""

from __future__ import annotations

import typer

from agentrt.lab.flags import add_command
from agentrt.lab.progress import log
from agentrt.lab.sim.flags import (
    CalibrateFlags,
    FitFlags,
    FleetFlags,
    LoadFlags,
    PredictFlags,
    RunFlags,
    SweepFlags,
    ValidateFlags,
)

sim = typer.Typer(
    help="Simulate many programs on one engine or many, with the scheduler of production.",
    no_args_is_help=True,
)


def run(flags: RunFlags) -> None:
    """Serve one draw of programs by one policy, and print its figures."""
    from agentrt.lab.result_file import write_json
    from agentrt.lab.sim.command import run_once

    found = run_once(flags, log)
    for name, value in found.items():
        typer.echo(f"{name:24} {value if isinstance(value, str | int) else f'{value:.6g}'}")
    write_json(flags.json_path, found)


def fit(flags: FitFlags) -> None:
    """Find what steps take from a measurement of the engine."""
    from agentrt.lab.commands.sim_costs import write_fitted

    write_fitted(flags)


def calibrate(flags: CalibrateFlags) -> None:
    """Measure what steps and the runtime take, on this machine."""
    from agentrt.lab.commands.sim_costs import write_calibrated

    write_calibrated(flags)


def sweep(flags: SweepFlags) -> None:
    """Compare policies on one mix, at the rate where an engine that knows requests is slow."""
    from agentrt.lab.result_file import write_json, write_text
    from agentrt.lab.sim.command import run_sweep
    from agentrt.lab.sim.sweep import to_json
    from agentrt.lab.sim.sweep_page import sweep_page

    found, about = run_sweep(flags, log)
    for target in found.targets():
        typer.echo(str(target))
    write_json(flags.json_path, to_json(found, about))
    if flags.html_path is not None:
        write_text(flags.html_path, sweep_page(found, about))


def load(flags: LoadFlags) -> None:
    """Compare policies over the rate, around the one where fcfs with a gate is slow."""
    from agentrt.lab.result_file import write_json, write_text
    from agentrt.lab.sim.load_command import run_load
    from agentrt.lab.sim.load_file import to_json
    from agentrt.lab.sim.load_page import load_page
    from agentrt.lab.sim.load_targets import load_targets

    found, about = run_load(flags, log)
    for target in load_targets(found):
        typer.echo(str(target))
    write_json(flags.json_path, to_json(found, about))
    if flags.html_path is not None:
        write_text(flags.html_path, load_page(found, about))


def fleet(flags: FleetFlags) -> None:
    """Serve very many programs on many engines, by rates instead of steps."""
    from agentrt.lab.result_file import write_json, write_text
    from agentrt.lab.sim.fluid.command import fleet_page, run_fleet

    found = run_fleet(flags, log)
    write_json(flags.json_path, found)
    if flags.html_path is not None:
        write_text(flags.html_path, fleet_page(found))


def validate(flags: ValidateFlags) -> None:
    """Hold the simulator against the real engine: latencies, and the order of policies."""
    from agentrt.lab.commands.sim_validate import run_validation

    run_validation(flags)


def predict(flags: PredictFlags) -> None:
    """Predict latencies from a calibration on other programs, then measure them."""
    from agentrt.lab.commands.sim_predict import run_prediction

    run_prediction(flags)


for command in (run, fit, calibrate, sweep, load, fleet, validate, predict):
    add_command(sim, command)
