"""`agentrt bench fleet`: programs over replicas of vLLM, ours beside the strongest client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import typer

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.program_arm import client_arm, fleet_arm
from agentrt.lab.arms.served import PAGE_TOKENS, Served
from agentrt.lab.arms.servers import plans_of
from agentrt.lab.arms.vllm_server import BLOCK_TOKENS
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.load_draw import LoadDraw, largest_tokens, load_draw, load_draws
from agentrt.lab.bench.compound.load_truth import truths_of
from agentrt.lab.bench.compound.model import bench_model, model_shape, scale_of
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.bench.fleet.flags import FLEET_FILE, FleetBenchFlags
from agentrt.lab.bench.fleet.fleet_play import FleetPlay, play_from_json
from agentrt.lab.bench.fleet.fleet_targets import CLIENT, KNOWING, OURS, fleet_targets
from agentrt.lab.bench.fleet.replicas import Replicas, cores_of, replica_plan
from agentrt.lab.bench.fleet.run import FleetRun, StrongestClient
from agentrt.lab.equal_facts import check_equal
from agentrt.lab.flags import check_known
from agentrt.lab.quiet_machine import QuietMachine
from agentrt.lab.result_file import commit, header, machine, write_json
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.workloads.site_limits import site_limits
from agentrt.lab.workloads.trace import prompt_tokens
from agentrt.scheduler.estimates.step_model import StepTime

_ROOM = 1.1  # least memory divided by the longest request
_WARM = 1000
"""Number of the draw from which our arms learn, so that more draws do not move it."""

_FREE_FLAGS = ("plays", "draws", "busy", "json_path", "resume", "widths", "first_rate", "rate")
"""Flags that may differ between the parts of a measurement."""


def run_fleet_bench(flags: FleetBenchFlags) -> None:
    """Measure, print and write the comparison; the file is written after each play.

    Raises:
        UsageError: A flag does not hold, vLLM was not built, or the file to go on with is of
            something else.
        BenchFailed: An arm or a server failed.
    """
    scale_of(flags.scale, model_shape(flags.shape))
    if flags.dtype:
        check_known("--dtype", (flags.dtype,), tuple(DTYPE_BYTES))
    kept = _kept(flags)
    peer_files().check("vllm")
    model = bench_model(flags.shape, scale=flags.scale, seed=flags.seed)
    drawing = model.drawing
    draws = load_draws(flags.draws, flags.programs, drawing, 1, flags.longest)
    warm = load_draw(_WARM, flags.programs, drawing, longest=flags.longest)
    programs = [program for draw in (*draws, warm) for program in draw.programs]
    least = int(_ROOM * largest_tokens((*draws, warm))) // PAGE_TOKENS * PAGE_TOKENS
    served = Served(model.path, flags.dtype or "float32", kv_tokens=max(flags.kv_tokens, least))
    files = peer_files(model.path)
    plan = plans_of("vllm", served, files, cores=1)[0]
    limits, truths = site_limits(programs), truths_of(programs, StepTime())

    def round_at(draw: LoadDraw, rate: float, text: str) -> Round:
        arriving = draw.arriving(rate)
        return Round("fleet", arriving, drawing.spell, limits=limits, truths=truths, text=text)

    def write(plays: Sequence[FleetPlay]) -> None:
        write_json(flags.written, _facts(flags) | {"every_play": [asdict(play) for play in plays]})

    with ExitStack() as stack:
        plans = [replica_plan(plan, core, flags.requests) for core in cores_of(flags.replicas)]
        replicas = Replicas(plans, stack)
        run = FleetRun(replicas, round_at, QuietMachine(flags.busy), kept=kept, on_play=write)
        run.open(CLIENT, ArmProcess(client_arm("asyncio", plans[0], files), server=replicas), stack)
        client = run.strongest_client(
            draws,
            flags.width_list,
            first_rate=flags.first_rate,
            slowdown=flags.slowdown,
            rate=flags.rate_given,
        )
        for name, policy in ((OURS, "rwa"), (KNOWING, "clairvoyant")):
            (arm,) = arms_named(policy)
            process = ArmProcess(fleet_arm("vllm", plan.model, arm.scheduler), server=replicas)
            run.open(name, process, stack)
        found = run.compare(draws, flags.plays, client, warm)
        about = {name: process.about for name, process in run.arms.items()}
    result = _result(flags, client, found, run.plays, draws) | {"arms": about}
    for line in lines_of(result, found):
        typer.echo(line)
    write_json(flags.written, result)
    if flags.json_path != flags.written:
        write_json(flags.json_path, result)


def lines_of(result: Mapping[str, Any], plays: Sequence[FleetPlay]) -> list[str]:
    """The comparison as text."""
    client = result["client"]
    lines = [
        f"client: at most {client['width'] or 'all'} programs under way, {client['rate']:.3g} "
        f"programs for 1,000 tokens served, mean slowdown {client['slowdown']:.2f}",
        f"one cache that never forgets, in blocks of {BLOCK_TOKENS} tokens: "
        f"{result['ideal_cached']:.3f} of prompt tokens",
    ]
    for name in dict.fromkeys(play.arm for play in plays):
        of_arm = [play for play in plays if play.arm == name]
        cached = sum(one.cached_tokens for one in of_arm) / sum(one.prompt_tokens for one in of_arm)
        of_ideal = cached / result["ideal_cached"]
        lines.append(f"{name}: cached {cached:.3f} of prompt tokens, {of_ideal:.3f} of that")
    return [*lines, *(verdict["told"] for verdict in result["verdicts"])]


def _facts(flags: FleetBenchFlags) -> dict[str, Any]:
    """Command, code, machine and flags."""
    return {
        **header(FLEET_FILE.schema),
        "commit": commit(),
        "machine": machine(),
        "flags": {name: str(value) for name, value in asdict(flags).items()},
    }


def _kept(flags: FleetBenchFlags) -> list[FleetPlay]:
    """The plays of an earlier part, if the file to go on with exists.

    Raises:
        UsageError: The file is of another machine, code or setting.
    """
    if flags.resume is None or not flags.resume.exists():
        return []
    here, name = _facts(flags), flags.resume.name

    def plays_of(there: Mapping[str, Any]) -> list[FleetPlay]:
        check_equal(there.get("commit"), here["commit"], f"{name}: commit")
        for fact in ("processor", "cores", "python"):
            check_equal(there["machine"].get(fact), here["machine"][fact], f"{name}: {fact}")
        for flag in here["flags"].keys() - set(_FREE_FLAGS):
            check_equal(there["flags"].get(flag), here["flags"][flag], f"{name}: --{flag}")
        return [play_from_json(one) for one in there["every_play"]]

    return FLEET_FILE.read(flags.resume, plays_of)


def _result(
    flags: FleetBenchFlags,
    client: StrongestClient,
    found: Sequence[FleetPlay],
    every: Sequence[FleetPlay],
    draws: Sequence[LoadDraw],
) -> dict[str, Any]:
    return {
        **_facts(flags),
        "client": asdict(client),
        "ideal_cached": _ideal_cached(draws),
        "compared": [list(play.key) for play in found],
        "every_play": [asdict(play) for play in every],
        "verdicts": [
            asdict(one) | {"met": one.is_met, "told": str(one)} for one in fleet_targets(found)
        ],
    }


def _ideal_cached(draws: Sequence[LoadDraw]) -> float:
    """Share of prompt tokens that one cache for the whole fleet would find if it never forgot."""
    prompts = found = 0
    for draw in draws:
        found += PrefixTree().found_tokens(draw.programs, BLOCK_TOKENS)
        prompts += sum(sum(prompt_tokens(program).values()) for program in draw.programs)
    return found / prompts
