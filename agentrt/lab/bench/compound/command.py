"""`agentrt bench compound`: latency of whole programs, ours beside clients of servers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.engine.ops.cpu_threads import forget_choice
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.served import Served
from agentrt.lab.bench.compound.bound import bounds_of
from agentrt.lab.bench.compound.features import FEATURES, OwnArm, ablation
from agentrt.lab.bench.compound.live import live_programs, measured_live
from agentrt.lab.bench.compound.load import run_load
from agentrt.lab.bench.compound.load_point import ENOUGH_KV_TOKENS, LoadPoint, OpenLoad
from agentrt.lab.bench.compound.load_point_file import point_from_json
from agentrt.lab.bench.compound.model import EMBEDDED, BenchModel, bench_model
from agentrt.lab.bench.compound.open_arms import ARMS, PLAIN, ArmsConfig, our_names
from agentrt.lab.bench.compound.plan import (
    ProgramDraw,
    longest_tokens,
    room_tokens,
    round_of_one,
    rounds_of_one,
    totals_in_words,
)
from agentrt.lab.bench.compound.play_log import PlayLog, read_log
from agentrt.lab.bench.compound.probe import short_rounds
from agentrt.lab.bench.compound.recorded_texts import (
    DRAWN,
    RECORDED,
    check_recorded,
    recorded_draw,
    with_replay,
)
from agentrt.lab.bench.compound.result import flag_facts, identity_of, to_json
from agentrt.lab.bench.compound.run import MOST_SLOTS, CompoundRun, run_rounds, with_room
from agentrt.lab.bench.flags import COMPOUND_FILE, CompoundFlags
from agentrt.lab.checkpoints.shapes import is_large
from agentrt.lab.equal_facts import check_equal
from agentrt.lab.flags import check_known, names, rate_factors, rate_of, require
from agentrt.lab.progress import log
from agentrt.lab.quiet_machine import QuietMachine
from agentrt.lab.result_file import short_paths, write_json
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.workloads.data import sizes_from
from agentrt.lab.workloads.shapes import SHAPES, shape_named
from agentrt.lab.workloads.sizes import SIZES

Json = dict[str, Any]
_DTYPES = ("float32", "bfloat16")
_ROOM = ("kv_tokens", "slots", "longest_tokens")
"""Facts that depend on the programs of the first part."""


def run_compound_bench(flags: CompoundFlags) -> Json:
    """Measure; returns the file's content, which is written after every play.

    Raises:
        UsageError: A flag is out of range, or the file to go on with was measured differently.
        BenchFailed: The arms cannot be compared.
    """
    check(flags)
    sizes = SIZES if flags.data is None else sizes_from(flags.data)
    model = bench_model(flags.shape, scale=flags.scale, sizes=sizes, seed=flags.seed)
    log(f"scales {asdict(model.drawing.scale)}")
    with ExitStack() as stack:
        part = _Part(flags, model)
        run = part.one_by_one(stack) if flags.load == "one" else part.under_load(stack)
    return part.end(run)


def arms_config(flags: CompoundFlags, model: BenchModel) -> ArmsConfig:
    """The arms; all compute the same weights in the same dtype."""
    dtype = flags.dtype or ("bfloat16" if is_large(model.shape) else "float32")
    asked = names(flags.arms)
    ours = own_arms(flags) if OURS in asked else {}
    if PLAIN in asked:
        ours[PLAIN] = OwnArm(arms_named(CompoundFlags().policy)[0].scheduler)
    return ArmsConfig(
        names=(*ours, *(name for name in asked if name not in (OURS, PLAIN))),
        ours=ours,
        served=Served(model.path, dtype),
        threads=flags.threads,
        files=peer_files(model.path),
        quick=flags.quick,
        drafts=flags.drafts,
    )


def own_arms(flags: CompoundFlags) -> dict[str, OwnArm]:
    """Our own arms by name: one, or one for each policy, or those of an ablation."""
    if flags.without:
        return ablation(features_of(flags))
    schedulers = {arm.name: arm.scheduler for arm in arms_named(flags.policy)}
    policies = our_names(tuple(schedulers))
    engine = {"speculate_tokens": "auto"} if flags.drafts else {}
    return {name: OwnArm(schedulers[policy], engine) for name, policy in policies.items()}


def features_of(flags: CompoundFlags) -> tuple[str, ...]:
    """Features that an ablation takes away."""
    return tuple(FEATURES) if flags.without == "all" else names(flags.without)


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
    if flags.without:
        check_known("--without", features_of(flags), tuple(FEATURES))
        alone = f"--policy {flags.policy} is no ablation"
        require(flags.policy == CompoundFlags().policy, alone, "Leave it out beside --without")
    check_known("--load", (flags.load,), ("one", "open"))
    check_known("--texts", (flags.texts,), (DRAWN, RECORDED))
    if flags.texts == RECORDED:
        check_recorded(flags, program_shapes(flags))
    if flags.dtype:
        check_known("--dtype", (flags.dtype,), _DTYPES)
    own_arms(flags)
    if flags.live is not None:
        live_programs(flags.live)
    share, load = flags.kv_share, flags.load == "open"
    require(
        not load or flags.programs >= 10,
        f"--programs {flags.programs} are no load",
        "Give at least 10 programs",
    )
    require(
        not load or flags.warmups == CompoundFlags().warmups,
        "--warmups are for --load one",
        "Leave it out: a load has a draw that warms up",
    )
    live = flags.live is None or flags.shape == EMBEDDED
    require(live, "--live is for the embedded model", "Add --shape embedded")
    require(load or not share, "--kv-share is for a load", "Add --load open")
    require(0 <= share <= 1, f"--kv-share {share} is no share", "Give 0 to 1")
    goes_on = flags.resume is not None
    alone = "--resume and --live do not go together"
    require(not (goes_on and flags.live), alone, "Run the programs of --live by themselves")
    twice = "--resume FILE is written, too"
    require(not (goes_on and flags.json_path), twice, "Leave --json out")
    if flags.resume is not None and flags.resume.exists():
        _check_earlier_parts(flags, flags.resume)


def _check_earlier_parts(flags: CompoundFlags, path: Path) -> None:
    """Check facts of the file to go on with that need no model; the rest follows with the model.

    Raises:
        UsageError: The file was measured with something else, or is damaged.
    """
    wanted = flag_facts(flags)

    def check_identity(found: Json) -> None:
        there = found["identity"]
        known = {name: there.get(name) for name in wanted}  # an older file lacks later facts
        check_equal(known | {"machine": there["machine"]}, wanted, path.name)

    COMPOUND_FILE.read(path, check_identity)


def _point_of(load: OpenLoad, drawing: ProgramDraw, name: str, found: Json) -> LoadPoint:
    """The operating point in a file.

    Raises:
        UsageError: The file has no load, or that of another one.
    """
    require("load" in found, f"{name} has no load", "Measure into another file")
    return point_from_json(load, drawing, found["load"]["found"], name)


class _Part:
    """One part of a bench: the plays of one command, put to those of earlier parts."""

    def __init__(self, flags: CompoundFlags, model: BenchModel) -> None:
        self._flags, self._model = flags, model
        self._began_s = time.monotonic()
        self._quiet = QuietMachine(flags.busy)
        self._times_s: dict[str, float] = {}
        self._asked = arms_config(flags, model)

    def one_by_one(self, stack: ExitStack) -> CompoundRun:
        """One program at a time."""
        flags, drawing = self._flags, self._model.drawing
        recorded = recorded_draw(flags, self._model) if flags.texts == RECORDED else None
        # Each play takes a record of its own.
        counted = flags.counted if recorded is None else (prod(flags.counted), 1)
        source = recorded or drawing
        rounds = rounds_of_one(program_shapes(flags), *counted, source, warmups=flags.warmups)
        if recorded is not None:
            recorded.tell()
        programs = [program for one in rounds for program in one.programs]
        log(f"to do for each arm: {totals_in_words(programs)}")
        config = with_room(
            self._asked,
            programs,
            kv_tokens=max(ENOUGH_KV_TOKENS, room_tokens(programs, MOST_SLOTS)),
            longest_tokens=max(longest_tokens(program) for program in programs),
        )
        config = self._room_of_earlier_parts(config)
        plays = self._log_of(config)
        keys = {one.key for one in rounds}
        earlier = [round_of_one(key, source) for key in plays.round_keys() if key not in keys]
        if recorded is not None:
            config = with_replay(config, rounds, stack)
        plays.on_play = self._writer(CompoundRun(config, [*rounds, *earlier], plays))
        probe = short_rounds(program_shapes(flags), self._model)
        run = run_rounds(rounds, config, stack, plays, self._quiet, probe)
        return replace(run, rounds=[*rounds, *earlier])

    def under_load(self, stack: ExitStack) -> CompoundRun:
        """Programs as they arrive."""
        flags = self._flags
        load = OpenLoad(
            rate=rate_of(flags.rate, "--rate"),
            slowdown=flags.slowdown,
            programs=flags.programs,
            draws=flags.counted[0],
            plays=flags.counted[1],
            factors=tuple(rate_factors(flags.factors, "--factors")),
            kv_share=flags.kv_share,
            tenants=flags.tenants,
        )
        drawing, path, earlier = self._model.drawing, flags.resume, None
        if path is not None and path.exists():
            earlier = COMPOUND_FILE.read(path, partial(_point_of, load, drawing, path.name))
        return run_load(
            load,
            drawing,
            self._asked,
            stack,
            log_of=self._log_of,
            quiet=self._quiet,
            earlier=earlier,
            on_play=lambda run: write_json(flags.written, to_json(run)),
        )

    def end(self, run: CompoundRun) -> Json:
        """Add this part and what is derived from all plays; write and return the whole."""
        began_s = time.monotonic()
        run.plays.bounds = bounds_of(run, self._model.shape)
        live = None
        if self._flags.live is not None:
            live = measured_live(self._flags.live, self._flags.counted[1])
        times_s = {**run.times_s, "bounds": time.monotonic() - began_s}
        for name, took_s in times_s.items():
            log(f"{took_s / 60:7.1f} min  {name}")
        took_s = time.monotonic() - self._began_s
        run.plays.parts.append(
            {
                "command": short_paths(sys.argv[1:]),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "arms": list(run.config.names),
                "load_average": list(os.getloadavg()),
                "took_s": took_s,
                "times_s": times_s,
            }
        )
        all_s = sum(part["took_s"] for part in run.plays.parts)
        log(f"this part took {took_s / 60:.1f} min, all parts {all_s / 60:.1f} min")
        found = to_json(run) | ({} if live is None else {"live": live})
        write_json(self._flags.written, found)
        return found

    def _writer(self, run: CompoundRun) -> Callable[[], None]:
        return lambda: write_json(self._flags.written, to_json(run))

    def _room_of_earlier_parts(self, config: ArmsConfig) -> ArmsConfig:
        """Memory and slots of earlier parts if they suffice: they do not depend on a part's draws.

        Raises:
            UsageError: The file cannot be read, or was measured with something else.
        """
        path = self._flags.resume
        if path is None or not path.exists():
            return config
        wanted = self._identity(config.served)

        def room_of(found: Json) -> Json:
            there = found["identity"]
            room = {name: there[name] for name in _ROOM}
            check_equal(there, wanted | room, path.name)
            if any(room[name] < wanted[name] for name in _ROOM):
                check_equal(there, wanted, path.name)
            return room

        room = COMPOUND_FILE.read(path, room_of)
        return replace(config, served=replace(config.served, **room))

    def _identity(self, served: Served) -> Json:
        model = self._model
        return identity_of(served, model.shape, model.drawing, flag_facts(self._flags))

    def _log_of(self, config: ArmsConfig) -> PlayLog:
        flags, model = self._flags, self._model
        identity = self._identity(config.served)
        if flags.resume is not None and flags.resume.exists():
            plays = read_log(flags.resume, identity)
        else:
            plays = PlayLog(identity)
        # A choice of threads from before says little of now; all parts have that of the first.
        if not flags.quick and not plays.parts:
            forget_choice(EngineConfig(model_path=model.path))
        return plays
