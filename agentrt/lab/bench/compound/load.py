"""An open load on all arms: programs as they arrive, at the rate that was found and below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

from agentrt.base.config import SchedulerConfig
from agentrt.lab.arms.program_arm import OURS, OpenPlayer
from agentrt.lab.bench.compound.ground import Ground, OpenLoad, PlayRound, Tell, find_ground
from agentrt.lab.bench.compound.load_draw import LoadDraw, load_draw
from agentrt.lab.bench.compound.load_figures import load_figures, prefill_figures, verdicts
from agentrt.lab.bench.compound.measure import ArmSamples, play_round
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, totals
from agentrt.lab.bench.compound.players import Wanted, our_arm
from agentrt.lab.bench.compound.result import is_ours
from agentrt.lab.bench.compound.run import CompoundRun, run_rounds, with_room

SHARES = (0.6, 0.8, 1.0)
"""Rates of the comparison, by the rate that was found."""
PLAIN = SchedulerConfig(policy="fcfs", gate_share=0.0, retention=False)
"""An engine that knows requests only: nothing waits at a gate, no prefix is spoken of."""


def run_load(
    load: OpenLoad, drawing: ProgramDraw, wanted: Wanted, stack: ExitStack, tell: Tell
) -> CompoundRun:
    """Find where to measure, let every arm learn from other programs, and measure.

    Args:
        load: As asked for.
        drawing: Of programs.
        wanted: Arms; memory and places are set here.
        stack: Closes what was opened.
        tell: Called with what is being done.

    Raises:
        UsageError: There is no such load.
        BenchFailed: Arms cannot be compared.
    """

    @contextmanager
    def open_plain(kv_tokens: int) -> Iterator[PlayRound]:
        served = replace(wanted.served, kv_tokens=kv_tokens)
        player = OpenPlayer(our_arm(served, PLAIN, threads=wanted.threads), None)
        try:
            yield lambda one: play_round("fcfs", player, one, "plain")
        finally:
            player.close()

    ground = find_ground(load, drawing, open_plain, tell)
    rounds = rounds_of(load, ground, drawing)
    programs = [program for draw in ground.draws for program in draw.programs]
    wanted = with_room(
        wanted,
        programs,
        kv_tokens=ground.probe.kv_tokens,
        longest_tokens=ground.largest_tokens,
    )
    for line in told_before(load, ground, rounds, wanted):
        tell(line)
    run = run_rounds(rounds, wanted, stack, tell)
    return replace(run, told=_told(load, ground, rounds, run.samples))


def rounds_of(load: OpenLoad, ground: Ground, drawing: ProgramDraw) -> list[Round]:
    """What all arms play: other programs to learn from, then every draw at every rate."""
    warm = load_draw(
        len(ground.draws),
        load.programs,
        drawing,
        tenants=load.tenants,
        longest=ground.largest_tokens,
    )
    spell, rate = drawing.spell, ground.probe.rate
    rounds = [Round("warm", warm.arriving(rate), spell, counts=False, text="warm")]
    for share in shares_of(load):
        rounds += [
            Round(
                label_of(share),
                draw.arriving(share * rate),
                spell,
                counts=True,
                service_s=ground.service_s,
                text=f"{share}/{draw.number}",
            )
            for draw in ground.draws
        ]
    return rounds


def shares_of(load: OpenLoad) -> Sequence[float]:
    """A rate that was given is the only one."""
    return (1.0,) if load.rate else SHARES


def label_of(share: float) -> str:
    """Of the rounds at a rate."""
    return f"load {share:g}"


def told_before(
    load: OpenLoad, ground: Ground, rounds: Sequence[Round], wanted: Wanted
) -> list[str]:
    """What is going to be played, and how long that takes."""
    probe = ground.probe
    arms = len(wanted.names) - (OURS in wanted.names) + len(wanted.policies)
    took_s = sum(
        arms * max(probe.lasts_s, one.workload[-1].at_s + probe.lasts_s / 4) for one in rounds
    )
    todo = totals([program for draw in ground.draws for program in draw.programs])
    shown = ", ".join(f"{value:,.0f} {name}" for name, value in todo.items())
    lines = [
        f"{len(ground.draws)} draws: {shown}; the largest request has {ground.largest_tokens} "
        "tokens",
        f"{arms} arms at {', '.join(f'{share * probe.rate:.3g}' for share in shares_of(load))} "
        f"programs a second, where fcfs is {probe.slowdown:.1f} times slower than alone at the "
        f"last; {probe.kv_tokens} tokens of KV, {ground.kv_share:.2f} of the mix's working set of "
        f"{ground.ample.working_set_tokens:.0f}",
        f"this takes about {took_s / 60:.0f} minutes",
    ]
    lines += [line for draw in ground.draws if (line := _shortened(draw))]
    return lines


def _shortened(draw: LoadDraw) -> str:
    if not draw.shortened:
        return ""
    told = ", ".join(f"{name} {factor:.2f}" for name, factor in draw.shortened.items())
    return f"draw {draw.number}, lengths and turns scaled down so that memory holds them: {told}"


def _told(
    load: OpenLoad,
    ground: Ground,
    rounds: Sequence[Round],
    samples: Mapping[str, ArmSamples],
) -> dict[str, Any]:
    last = label_of(shares_of(load)[-1])
    by_policy = {
        name.partition(":")[2]: one.rounds[last] for name, one in samples.items() if is_ours(name)
    }
    return {
        "asked": asdict(load),
        "fcfs": "first come first served without the admission gate: an engine of requests",
        "rate": ground.probe.rate,
        "kv_tokens": ground.probe.kv_tokens,
        "kv_share": ground.kv_share,
        "working_set_tokens": ground.ample.working_set_tokens,
        "largest_tokens": ground.largest_tokens,
        "shortened": {
            name: factor for draw in ground.draws for name, factor in draw.shortened.items()
        },
        "probes": [asdict(one) for one in ground.probes],
        "alone_s": ground.alone_s,
        "points": [_point(share, ground, rounds, samples) for share in shares_of(load)],
        "verdicts": [
            asdict(one) | {"met": one.is_met, "told": str(one)}
            for one in verdicts(by_policy, ground.alone_s)
        ],
    }


def _point(
    share: float, ground: Ground, rounds: Sequence[Round], samples: Mapping[str, ArmSamples]
) -> dict[str, Any]:
    label, rate = label_of(share), share * ground.probe.rate
    of_point = [one for one in rounds if one.label == label]
    arms = {}
    for name, one in samples.items():
        arms[name] = load_figures(one.rounds[label], ground.alone_s, rate)
        if is_ours(name):
            arms[name] |= prefill_figures(one.steps[label], of_point)
    return {"share": share, "label": label, "rate": rate, "arms": arms}
