"""What `agentrt bench compound` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrt import embedded
from agentrt.analysis.model_shape import ModelShape, shape_in
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.engine.ops.cpu_threads import forget_choice
from agentrt.lab.arms.peer_files import PeerFiles, peers_root
from agentrt.lab.arms.servers import Served
from agentrt.lab.bench.compound.bound import bounds_of
from agentrt.lab.bench.compound.ground import ENOUGH_KV_TOKENS, OpenLoad
from agentrt.lab.bench.compound.live import measured_live
from agentrt.lab.bench.compound.load import run_load
from agentrt.lab.bench.compound.plan import (
    ProgramDraw,
    default_scale,
    longest_tokens,
    rounds_of_one,
    totals,
)
from agentrt.lab.bench.compound.players import Wanted, check_names
from agentrt.lab.bench.compound.result import (
    SCHEMA,
    arms_json,
    comparison,
    ideal_hit_rates,
    is_ours,
    without_places,
)
from agentrt.lab.bench.compound.run import CompoundRun, run_rounds, with_room
from agentrt.lab.bench.engine.result import machine
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import is_large, shape_named
from agentrt.lab.workloads.data import sizes_from
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import shape_named as program_shape_named
from agentrt.lab.workloads.sizes import SIZES
from agentrt.lab.workloads.text import KeySpeller, words_of

EMBEDDED = "embedded"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompoundBench:
    """A run as asked for.

    Attributes:
        shape: Of the model: of the bench's own, or `embedded`.
        arms: Names.
        shapes: Of programs; "all" are twelve.
        repeats: Programs of each shape that count; of a load, draws of programs.
        load: "one" program at a time, or "open".
        rate: Of an open load, programs a second; 0 finds where a plain engine is slow.
        slowdown: Of that engine there, mean over programs.
        programs: Of an open load.
        kv_share: KV memory as a share of the working set of a load's mix; 0 gives enough.
        policies: Of our own arm, by name.
        scale: Factors that replace the default ones, by name.
        threads: Of our engine.
        dtype: That all compute in; "" takes bfloat16 for a large model, float32 for a small one.
        tenants: Of an open load.
        seed: Of all draws.
        data: Folder of public data, or None.
        quick: Small, and no claim: that it works.
        live: Folder of programs to run as they are, on the embedded model, or None.
    """

    shape: str
    arms: tuple[str, ...]
    shapes: tuple[str, ...]
    repeats: int
    load: str
    rate: float
    slowdown: float
    programs: int
    kv_share: float
    policies: Mapping[str, SchedulerConfig]
    scale: Mapping[str, float]
    threads: int
    dtype: str
    tenants: int
    seed: int
    data: Path | None
    quick: bool
    live: Path | None = None


def run_compound_bench(
    asked: CompoundBench, *, command: Sequence[str], tell: Tell
) -> dict[str, Any]:
    """Measure, and give the file's content.

    Raises:
        UsageError: Something was asked for that there is not.
        BenchFailed: The arms cannot be compared.
    """
    began_s = time.monotonic()
    check(asked)
    model, shape = _model(asked, tell)
    drawing = _drawing(asked, model, shape)
    tell(f"scales {asdict(drawing.scale)}")
    if not asked.quick:  # peers' plans are tried in this run, and so are our engine's threads
        forget_choice(EngineConfig(model_path=model))
    with ExitStack() as stack:
        run = (_one_by_one if asked.load == "one" else _under_load)(
            asked, drawing, _served(asked, model, shape), stack, tell
        )
        found = _result(asked, command, shape, run)
    found["bounds"] = bounds_of(run.rounds, run.samples, shape, run.wanted.served.dtype, tell)
    if asked.live is not None:
        found["live"] = measured_live(asked.live, asked.repeats, tell)
    found["took_s"] = time.monotonic() - began_s
    return found


def check(asked: CompoundBench) -> None:
    """That all that was asked for is there.

    Raises:
        UsageError: It is not.
    """
    check_names(asked.arms)
    files = PeerFiles(peers_root(), Path())
    for name in asked.arms:  # before weights are written and engines started
        for part in name.split("+"):
            files.check(part)
    for name in asked.shapes:
        program_shape_named(name)
    if asked.load not in ("one", "open"):
        raise UsageError(f"--load {asked.load} is not known", hint="Use one or open")
    if asked.repeats < 1:
        raise UsageError(f"--repeats {asked.repeats} measures nothing", hint="Give 5 or more")
    if asked.load == "open" and (not asked.rate >= 0 or asked.programs < 10):
        raise UsageError(
            f"--rate {asked.rate} with --programs {asked.programs} is no load",
            hint="Give programs a second or auto, and at least 10 programs",
        )
    if not asked.slowdown > 1:
        raise UsageError(
            f"--slowdown {asked.slowdown} is none", hint="Give more than 1, such as 10"
        )
    if asked.live is not None and asked.shape != EMBEDDED:
        raise UsageError("--live is for the embedded model", hint="Add --shape embedded")
    if asked.kv_share and asked.load != "open":
        raise UsageError("--kv-share is for a load", hint="Add --load open")
    if not 0 <= asked.kv_share <= 1:
        raise UsageError(f"--kv-share {asked.kv_share} is no share", hint="Give 0 to 1")


def _model(asked: CompoundBench, tell: Tell) -> tuple[Path, ModelShape]:
    if asked.shape == EMBEDDED:
        path = Path(embedded.path())
        return path, shape_in(path)
    shape = shape_named(asked.shape)
    return checkpoint(shape, tell=tell), shape


def _drawing(asked: CompoundBench, model: Path, shape: ModelShape) -> ProgramDraw:
    sizes = SIZES if asked.data is None else sizes_from(asked.data)
    spell = KeySpeller(words_of(model / "tokenizer.json"))
    return ProgramDraw(_scale(asked, shape), sizes, asked.seed, spell, shape.window_tokens)


def _served(asked: CompoundBench, model: Path, shape: ModelShape) -> Served:
    """What every engine is given: the same weights and dtype."""
    return Served(model, asked.dtype or ("bfloat16" if is_large(shape) else "float32"))


def _scale(asked: CompoundBench, shape: ModelShape) -> Scale:
    known = asdict(default_scale(shape))
    for name in asked.scale:
        if name not in known:
            raise UsageError(f"--scale {name} is not known", hint=f"Use some of {', '.join(known)}")
    return Scale(**{**known, **asked.scale})


def _one_by_one(
    asked: CompoundBench, drawing: ProgramDraw, served: Served, stack: ExitStack, tell: Tell
) -> CompoundRun:
    rounds = rounds_of_one(asked.shapes, asked.repeats, drawing)
    programs = [program for one in rounds for program in one.programs]
    tell(f"to do for each arm: {_shown(totals(programs))}")
    wanted = with_room(
        _wanted(asked, served),
        programs,
        kv_tokens=ENOUGH_KV_TOKENS,
        longest_tokens=max(longest_tokens(program) for program in programs),
    )
    return run_rounds(rounds, wanted, stack, tell)


def _under_load(
    asked: CompoundBench, drawing: ProgramDraw, served: Served, stack: ExitStack, tell: Tell
) -> CompoundRun:
    load = OpenLoad(
        rate=asked.rate,
        slowdown=asked.slowdown,
        programs=asked.programs,
        draws=asked.repeats,
        kv_share=asked.kv_share,
        tenants=asked.tenants,
    )
    return run_load(load, drawing, _wanted(asked, served), stack, tell)


def _wanted(asked: CompoundBench, served: Served) -> Wanted:
    return Wanted(asked.arms, asked.policies, served, asked.threads, peers_root(), asked.quick)


def _result(
    asked: CompoundBench,
    command: Sequence[str],
    shape: ModelShape,
    run: CompoundRun,
) -> dict[str, Any]:
    rounds, samples, opened, served = run.rounds, run.samples, run.opened, run.wanted.served
    labels = list(dict.fromkeys(one.label for one in rounds if one.counts))
    ours = max((name for name in samples if is_ours(name)), key=_rank, default=None)
    return {
        "schema": SCHEMA,
        "command": without_places(list(command)),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "model": asdict(shape) | {"parameters": shape.parameters},
        "dtype": served.dtype,
        "kv_tokens": served.kv_tokens,
        "slots": served.slots,
        "scale": asdict(_scale(asked, shape)),
        "seed": asked.seed,
        "sizes": "public data" if asked.data else "quantiles of public data",
        "labels": labels,
        "totals": {
            label: totals([p for one in rounds if one.label == label for p in one.programs])
            for label in labels
        },
        "ideal_hit_rate": ideal_hit_rates(rounds),
        "choices": opened.choices,
        "reaches": opened.reaches,
        "comparison": comparison(samples, labels, ours) if ours else {"peers": {}},
        "arms": arms_json(opened.players, samples, labels),
        **({"load": run.told} if run.told else {}),
    }


def _rank(name: str) -> bool:
    """Of several policies the default one is compared with the others."""
    return name.endswith(f":{SchedulerConfig().policy}")


def _shown(told: Mapping[str, float]) -> str:
    return ", ".join(f"{value:,.0f} {name}" for name, value in told.items())
