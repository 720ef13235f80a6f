"""What `agentrt bench compound` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrt import embedded
from agentrt.bench.checkpoint import checkpoint
from agentrt.bench.compound.bound import bounds_of
from agentrt.bench.compound.figures import Played
from agentrt.bench.compound.live import measured_live
from agentrt.bench.compound.measure import ArmSamples, take_turns
from agentrt.bench.compound.plan import (
    Drawing,
    Round,
    default_scale,
    longest_tokens,
    round_of_load,
    rounds_of_one,
    totals,
    widest,
    working_set_tokens,
)
from agentrt.bench.compound.players import Opened, Wanted, check_names, open_all
from agentrt.bench.compound.result import (
    SCHEMA,
    arms_json,
    comparison,
    ideal_hit_rates,
    is_ours,
    load_figures,
)
from agentrt.bench.compound.servers import Served
from agentrt.bench.compound.wire import ProgramLine
from agentrt.bench.peer_files import peers_root
from agentrt.bench.plan import PAGE_TOKENS
from agentrt.bench.result import machine
from agentrt.bench.shapes import ModelShape, shape_in, shape_named
from agentrt.config import SchedulerConfig
from agentrt.errors import UsageError
from agentrt.workloads.arrivals import one_by_one
from agentrt.workloads.data import sizes_from
from agentrt.workloads.scale import Scale
from agentrt.workloads.shapes import shape_named as program_shape_named
from agentrt.workloads.sizes import SIZES
from agentrt.workloads.text import Speller, words_of
from agentrt.workloads.trace import ProgramTrace

EMBEDDED = "embedded"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompoundBench:
    """A run as asked for.

    Attributes:
        shape: Of the model: of the bench's own, or `embedded`.
        arms: Names.
        shapes: Of programs; "all" are twelve.
        repeats: Programs of each shape that count; of a load, how often it comes.
        load: "one" program at a time, or "open".
        rate: Of an open load, programs a second.
        programs: Of an open load.
        kv_share: KV memory as a share of the working set of a load; 0 gives enough.
        policies: Of our own arm.
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
    programs: int
    kv_share: float
    policies: tuple[str, ...]
    scale: Mapping[str, float]
    threads: int
    dtype: str
    tenants: int
    seed: int
    data: Path | None
    quick: bool
    live: Path | None = None


_ENOUGH_KV_TOKENS = 32_768
_ROOM = 1.2  # of the longest call; what else an engine keeps pages for
_MOST_SLOTS = 32
_LARGE_PARAMETERS = 100_000_000


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
    rounds = _rounds(asked, drawing)
    programs = [program for one in rounds for program in one.programs]
    tell(f"scales {asdict(drawing.scale)}; to do for each arm: {_shown(totals(programs))}")
    served = _served(asked, model, shape, programs)
    wanted = Wanted(asked.arms, asked.policies, served, asked.threads, peers_root(), asked.quick)
    with ExitStack() as stack:
        opened = open_all(wanted, _probe(rounds), stack, tell)
        idle = _idle(asked, rounds, drawing, opened, tell)
        service_s = {one.name: one.latency_s - one.tools_s for one in idle}
        rounds = [replace(one, service_s=service_s) for one in rounds]
        samples = take_turns(opened.players, rounds, tell)
        found = _result(asked, command, shape, served, rounds, opened, samples)
        if idle:
            idle_s = {one.name: one.latency_s for one in idle}
            found["load"] = _load(asked, samples, idle_s, served.kv_tokens, programs)
    found["bounds"] = bounds_of(rounds, samples, shape, served.dtype, tell)
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
    for name in asked.shapes:
        program_shape_named(name)
    if asked.load not in ("one", "open"):
        raise UsageError(f"--load {asked.load} is not known", hint="Use one or open")
    if asked.repeats < 1:
        raise UsageError(f"--repeats {asked.repeats} measures nothing", hint="Give 5 or more")
    if asked.load == "open" and (not asked.rate > 0 or asked.programs < 10):
        raise UsageError(
            f"--rate {asked.rate} with --programs {asked.programs} is no load",
            hint="Give programs a second above 0, and at least 10 programs",
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


def _drawing(asked: CompoundBench, model: Path, shape: ModelShape) -> Drawing:
    sizes = SIZES if asked.data is None else sizes_from(asked.data)
    spell = Speller(words_of(model / "tokenizer.json"))
    return Drawing(_scale(asked, shape), sizes, asked.seed, spell, shape.window_tokens)


def _served(
    asked: CompoundBench, model: Path, shape: ModelShape, programs: Sequence[ProgramTrace]
) -> Served:
    """What every engine is given: the same weights, dtype and memory, and a place a branch."""
    return Served(
        model,
        asked.dtype or ("bfloat16" if shape.parameters > _LARGE_PARAMETERS else "float32"),
        min(_MOST_SLOTS, max(widest(program) for program in programs)),
        _kv_tokens(asked, programs),
        max(longest_tokens(program) for program in programs),
    )


def _scale(asked: CompoundBench, shape: ModelShape) -> Scale:
    known = asdict(default_scale(shape))
    for name in asked.scale:
        if name not in known:
            raise UsageError(f"--scale {name} is not known", hint=f"Use some of {', '.join(known)}")
    return Scale(**{**known, **asked.scale})


def _rounds(asked: CompoundBench, drawing: Drawing) -> list[Round]:
    if asked.load == "one":
        return rounds_of_one(asked.shapes, asked.repeats, drawing)
    return [
        round_of_load(asked.programs, asked.rate, number, drawing, tenants=asked.tenants)
        for number in range(asked.repeats)
    ]


def _kv_tokens(asked: CompoundBench, programs: Sequence[ProgramTrace]) -> int:
    """Of every engine; a share of the working set of one round of the load, if a call fits."""
    if not asked.kv_share:
        return _ENOUGH_KV_TOKENS
    share = asked.kv_share * working_set_tokens(programs) / asked.repeats
    tokens = max(share, _ROOM * max(longest_tokens(program) for program in programs))
    return int(tokens) // PAGE_TOKENS * PAGE_TOKENS


def _probe(rounds: Sequence[Round]) -> list[ProgramLine]:
    """The first program of each label: what servers are chosen by."""
    seen: dict[str, ProgramLine] = {}
    for one in rounds:
        for line in one.lines("probe"):
            seen.setdefault(line["shape"], {**line, "at_s": 0.0})
    small = sorted(seen.values(), key=lambda line: len(line["nodes"]))
    return small[:3]


def _idle(
    asked: CompoundBench, rounds: Sequence[Round], drawing: Drawing, opened: Opened, tell: Tell
) -> list[Played]:
    """Each program of a load, played alone by our arm with text of its own.

    Where several policies compete, each of them: what they learn from it, all have to know.
    """
    if asked.load != "open" or not any(is_ours(name) for name in opened.players):
        return []
    programs = {program.name: program for one in rounds for program in one.programs}
    tell(f"playing {len(programs)} programs alone")
    alone = [drawing.round("idle", one_by_one([program])) for program in programs.values()]
    players = {name: player for name, player in opened.players.items() if is_ours(name)}
    played_alone = take_turns(players, alone, lambda text: None, salt="idle")
    return next(iter(played_alone.values())).all("idle")


def _load(
    asked: CompoundBench,
    samples: Mapping[str, ArmSamples],
    idle: Mapping[str, float],
    kv_tokens: int,
    programs: Sequence[ProgramTrace],
) -> dict[str, Any]:
    return {
        "rate": asked.rate,
        "kv_tokens": kv_tokens,
        "working_set_tokens": working_set_tokens(programs) / asked.repeats,
        "idle_s": dict(idle),
        "arms": {
            name: load_figures(one.all("load"), idle, asked.rate) for name, one in samples.items()
        },
    }


def _result(
    asked: CompoundBench,
    command: Sequence[str],
    shape: ModelShape,
    served: Served,
    rounds: Sequence[Round],
    opened: Opened,
    samples: Mapping[str, ArmSamples],
) -> dict[str, Any]:
    labels = list(dict.fromkeys(one.label for one in rounds))
    ours = max((name for name in samples if is_ours(name)), key=_rank, default=None)
    return {
        "schema": SCHEMA,
        "command": list(command),
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
    }


def _rank(name: str) -> bool:
    """Of several policies the default one is compared with the others."""
    return name.endswith(f":{SchedulerConfig().policy}")


def _shown(told: Mapping[str, float]) -> str:
    return ", ".join(f"{value:,.0f} {name}" for name, value in told.items())
