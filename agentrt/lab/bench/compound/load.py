"""An open load on all arms: programs as they arrive, at the operating point and below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from agentrt.base.config import SchedulerConfig
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.program_arm import runtime_arm
from agentrt.lab.bench.compound.arm_samples import ArmSamples
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load_draw import LoadDraw, largest_tokens
from agentrt.lab.bench.compound.load_figures import load_figures, prefill_figures
from agentrt.lab.bench.compound.load_point import (
    BASELINE,
    LoadPoint,
    OpenLoad,
    PlayOne,
    find_load_point,
    limits_of,
    warm_draw,
)
from agentrt.lab.bench.compound.load_point_file import point_to_json
from agentrt.lab.bench.compound.load_targets import targets
from agentrt.lab.bench.compound.load_truth import truths_of
from agentrt.lab.bench.compound.open_arms import ArmsConfig
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, totals_in_words
from agentrt.lab.bench.compound.play_log import PlayLog
from agentrt.lab.bench.compound.run import (
    CompoundRun,
    is_ours,
    play_round,
    run_rounds,
    with_room,
)
from agentrt.lab.progress import log
from agentrt.lab.quiet_machine import QuietMachine
from agentrt.lab.workloads.step_sample import StepSample


def run_load(
    load: OpenLoad,
    drawing: ProgramDraw,
    config: ArmsConfig,
    stack: ExitStack,
    *,
    log_of: Callable[[ArmsConfig], PlayLog],
    quiet: QuietMachine,
    earlier: LoadPoint | None = None,
    on_play: Callable[[CompoundRun], None] = lambda run: None,
) -> CompoundRun:
    """Find the operating point, let every arm learn from other programs, and measure.

    Args:
        load: The load as asked for.
        drawing: How programs are drawn.
        config: The arms; their memory and slots are set here.
        stack: Closes the arms.
        log_of: Makes the log of plays, once memory and slots are known.
        quiet: Check before each play.
        earlier: Operating point of an earlier part; None searches it.
        on_play: Called with the run so far once the point is found, and after every play.

    Raises:
        UsageError: There is no such load.
        BenchFailed: Arms cannot be compared.
    """

    def open_engine(scheduler: SchedulerConfig, kv_tokens: int, stack: ExitStack) -> PlayOne:
        served = replace(config.served, kv_tokens=kv_tokens)
        process = ArmProcess(runtime_arm(served, scheduler, threads=config.threads))
        stack.callback(process.close)

        def play(one: Round) -> tuple[Sequence[PlayedProgram], Sequence[StepSample]]:
            found, steps = play_round(process, one, "search")
            return found.programs, steps

        return play

    found = earlier or find_load_point(load, drawing, open_engine)
    rounds = rounds_of(load, found, drawing)
    config = with_room(
        config,
        found.programs,
        kv_tokens=found.point.kv_tokens,
        longest_tokens=largest_tokens(found.draws),
    )
    for line in plan_in_words(load, found, rounds, config):
        log(line)
    plays = log_of(config)
    so_far = CompoundRun(config, rounds, plays, load={"found": point_to_json(load, found)})
    plays.on_play = lambda: on_play(so_far)
    on_play(so_far)
    run = run_rounds(rounds, config, stack, plays, quiet)
    return replace(run, load=_result(load, found, rounds, run.plays.samples))


def rounds_of(load: OpenLoad, found: LoadPoint, drawing: ProgramDraw) -> list[Round]:
    """The rounds of all arms: other programs to learn from, then every draw at every rate."""
    warm = warm_draw(load, drawing, found.draws)
    spell, rate = drawing.spell, found.rate
    limits = limits_of(load, drawing, found.draws)
    truths = truths_of((*found.programs, *warm.programs), found.step)

    def round_of(label: str, draw: LoadDraw, share: float, play: int) -> Round:
        return Round(
            label,
            draw.arriving(share * rate),
            spell,
            counts=draw is not warm,
            limits=limits,
            truths=truths,
            text=f"{label}/{draw.number}/{play}",
            draw=draw.number,
            play=play,
        )

    return [round_of("warm", warm, 1.0, 0)] + [
        round_of(label_of(share), draw, share, play)
        for share in load.rates
        for play in range(load.plays)
        for draw in found.draws
    ]


def label_of(share: float) -> str:
    """Label of the rounds at a rate."""
    return f"load {share:g}"


def plan_in_words(
    load: OpenLoad, found: LoadPoint, rounds: Sequence[Round], config: ArmsConfig
) -> list[str]:
    """The plays ahead, and how long they take."""
    arms = len(config.names)
    lasts_s = found.lasts_s[found.point.found[0]]
    took_s = sum(arms * max(lasts_s, one.workload[-1].at_s + lasts_s / 4) for one in rounds)
    rates = ", ".join(f"{share * found.rate:.3g}" for share in load.rates)
    return [
        f"{len(found.draws)} draws: {totals_in_words(found.programs)}; the largest request has "
        f"{largest_tokens(found.draws)} tokens",
        found.point.in_words(),
        f"{arms} arms at {rates} programs a second: this takes about {took_s / 60:.0f} minutes",
        *(_shortened(draw) for draw in found.draws if draw.shortened),
    ]


def _shortened(draw: LoadDraw) -> str:
    shown = ", ".join(f"{name} {factor:.2f}" for name, factor in draw.shortened.items())
    return f"draw {draw.number}, lengths and turns scaled down so that memory holds them: {shown}"


def _result(
    load: OpenLoad,
    found: LoadPoint,
    rounds: Sequence[Round],
    samples: Mapping[str, ArmSamples],
) -> dict[str, Any]:
    at_rate = label_of(1.0)
    by_policy = {
        name.partition(":")[2]: one.of(at_rate) for name, one in samples.items() if is_ours(name)
    }
    return {
        "found": point_to_json(load, found),
        "asked": asdict(load),
        "baseline": BASELINE,
        "rate": found.rate,
        "kv_tokens": found.point.kv_tokens,
        "kv_share": found.kv_share,
        "working_set_tokens": found.working_set_tokens,
        "largest_tokens": largest_tokens(found.draws),
        "shortened": {
            name: factor for draw in found.draws for name, factor in draw.shortened.items()
        },
        "probes": [asdict(one) | {"lasts_s": found.lasts_s[one]} for one in found.point.tried],
        "alone_s": found.alone_s,
        "points": [_point(share, found, rounds, samples) for share in load.rates],
        "verdicts": [
            asdict(one) | {"met": one.is_met, "told": str(one)}
            for one in targets(by_policy, found.alone_s)
        ],
    }


def _point(
    share: float, found: LoadPoint, rounds: Sequence[Round], samples: Mapping[str, ArmSamples]
) -> dict[str, Any]:
    label, rate = label_of(share), share * found.rate
    of_point = [one for one in rounds if one.label == label]
    arms = {}
    for name, one in samples.items():
        arms[name] = load_figures(one.rounds(label), found.alone_s, rate)
        if is_ours(name):
            arms[name] |= prefill_figures(one.of(label), of_point)
    return {"share": share, "label": label, "rate": rate, "arms": arms}
