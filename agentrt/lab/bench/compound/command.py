"""`agentrt bench compound`: latency of whole programs, ours beside clients of servers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.engine.ops.cpu_threads import forget_choice
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.servers import Served
from agentrt.lab.bench.compound.bound import bounds_of
from agentrt.lab.bench.compound.live import measured_live
from agentrt.lab.bench.compound.load import run_load
from agentrt.lab.bench.compound.load_point import ENOUGH_KV_TOKENS, OpenLoad
from agentrt.lab.bench.compound.model import EMBEDDED, BenchModel, bench_model
from agentrt.lab.bench.compound.open_arms import ARMS, ArmsConfig
from agentrt.lab.bench.compound.plan import longest_tokens, rounds_of_one, totals_in_words
from agentrt.lab.bench.compound.result import to_json
from agentrt.lab.bench.compound.run import CompoundRun, run_rounds, with_room
from agentrt.lab.bench.flags import CompoundFlags
from agentrt.lab.checkpoints.shapes import is_large
from agentrt.lab.flags import check_known, factors, names, rate_of, require
from agentrt.lab.progress import log
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.workloads.data import sizes_from
from agentrt.lab.workloads.shapes import SHAPES, shape_named
from agentrt.lab.workloads.sizes import SIZES


def run_compound_bench(flags: CompoundFlags) -> dict[str, Any]:
    """Measure; returns the file's content.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: The arms cannot be compared.
    """
    began_s = time.monotonic()
    check(flags)
    sizes = SIZES if flags.data is None else sizes_from(flags.data)
    scale = factors(flags.scale, "--scale")
    model = bench_model(flags.shape, factors=scale, sizes=sizes, seed=flags.seed)
    log(f"scales {asdict(model.drawing.scale)}")
    if not flags.quick:  # peers' plans are tried in this run, and so are our engine's threads
        forget_choice(EngineConfig(model_path=model.path))
    with ExitStack() as stack:
        run = (_one_by_one if flags.load == "one" else _under_load)(flags, model, stack)
        source = "public data" if flags.data else "quantiles of public data"
        found = to_json(run, model.shape, model.drawing, source)
    found["bounds"] = bounds_of(run, model.shape)
    if flags.live is not None:
        found["live"] = measured_live(flags.live, flags.counted)
    found["took_s"] = time.monotonic() - began_s
    return found


def arms_config(flags: CompoundFlags, model: BenchModel) -> ArmsConfig:
    """The arms; all compute the same weights in the same dtype."""
    dtype = flags.dtype or ("bfloat16" if is_large(model.shape) else "float32")
    return ArmsConfig(
        names(flags.arms),
        {arm.name: arm.scheduler for arm in arms_named(flags.policy)},
        Served(model.path, dtype),
        flags.threads,
        peer_files(model.path),
        flags.quick,
    )


def program_shapes(flags: CompoundFlags) -> tuple[str, ...]:
    """Shapes of programs."""
    return tuple(SHAPES) if flags.shapes == "all" else names(flags.shapes)


def check(flags: CompoundFlags) -> None:
    """Check the flags before weights are written and engines started.

    Raises:
        UsageError: A flag is out of range.
    """
    check_known("--arms", names(flags.arms), ARMS)
    peer_files().check(*(part for name in names(flags.arms) for part in name.split("+")))
    for name in program_shapes(flags):
        shape_named(name)
    check_known("--load", (flags.load,), ("one", "open"))
    factors(flags.scale, "--scale")
    rate = rate_of(flags.rate, "--rate")
    share, load = flags.kv_share, flags.load == "open"
    require(flags.repeats >= 1, f"--repeats {flags.repeats} measures nothing", "Give 5 or more")
    require(
        not load or flags.programs >= 10,
        f"--rate {rate} with --programs {flags.programs} is no load",
        "Give programs a second or auto, and at least 10 programs",
    )
    slowdown = f"--slowdown {flags.slowdown} is none"
    require(flags.slowdown > 1, slowdown, "Give more than 1, such as 10")
    live = flags.live is None or flags.shape == EMBEDDED
    require(live, "--live is for the embedded model", "Add --shape embedded")
    require(load or not share, "--kv-share is for a load", "Add --load open")
    require(0 <= share <= 1, f"--kv-share {share} is no share", "Give 0 to 1")


def _one_by_one(flags: CompoundFlags, model: BenchModel, stack: ExitStack) -> CompoundRun:
    rounds = rounds_of_one(program_shapes(flags), flags.counted, model.drawing)
    programs = [program for one in rounds for program in one.programs]
    log(f"to do for each arm: {totals_in_words(programs)}")
    config = with_room(
        arms_config(flags, model),
        programs,
        kv_tokens=ENOUGH_KV_TOKENS,
        longest_tokens=max(longest_tokens(program) for program in programs),
    )
    return run_rounds(rounds, config, stack)


def _under_load(flags: CompoundFlags, model: BenchModel, stack: ExitStack) -> CompoundRun:
    load = OpenLoad(
        rate=rate_of(flags.rate, "--rate"),
        slowdown=flags.slowdown,
        programs=flags.programs,
        draws=flags.counted,
        kv_share=flags.kv_share,
        tenants=flags.tenants,
    )
    return run_load(load, model.drawing, arms_config(flags, model), stack)
