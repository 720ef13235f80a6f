"""`agentrt sim validate`: the simulator held against the real engine, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random

import anyio
import typer

from agentrt.base.config import EngineConfig, PolicyName
from agentrt.lab.arms.program_arm import Played
from agentrt.lab.bench.compound.model import BenchModel, bench_model
from agentrt.lab.bench.compound.real_time import draw_mix, real_time
from agentrt.lab.flags import names, require
from agentrt.lab.progress import log
from agentrt.lab.result_file import commit, machine, write_json, write_text
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.calibrate import calibrate
from agentrt.lab.sim.costs import SimCosts, load_costs
from agentrt.lab.sim.flags import ValidateFlags
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.sim.validate import MOST_ERROR, Play, PlayedWorkload, Terms, Validation, validate
from agentrt.lab.sim.validation_page import to_json, validation_page
from agentrt.lab.workloads.arrivals import poisson
from agentrt.lab.workloads.trace import ProgramTrace, TraceCall, Workload
from agentrt.program import chat
from agentrt.prompt import Codec

LOADS = (0.5, 0.3, 0.6, 0.9)
"""Share of what the engine could do, roughly; the first load only warms up."""


def run_validation(flags: ValidateFlags) -> None:
    """Measure, simulate, compare, and write the files.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: A program failed on the engine.
    """
    policies = _policies(flags.policies)
    few = f"--programs {flags.programs} says nothing"
    require(flags.programs >= 4, few, "Give 4 or more; 24 or so")
    none = f"--repeats {flags.repeats} measures nothing"
    require(flags.repeats >= 1, none, "Give 1 or more; 2 or so")
    model = bench_model(flags.shape)
    costs = _costs(model, flags)
    setup = Setup(costs, flags.kv_tokens, start_tokens=_start_tokens(model))
    with ExitStack() as stack:
        engine = partial(
            real_time, model, kv_tokens=flags.kv_tokens, threads=flags.threads, stack=stack
        )
        players = {policy: _play(engine(policy)) for policy in policies}
        loads = _loads(model, costs, flags)
        found = validate(players, loads, setup, repeats=flags.repeats, log=log)
    about = {
        "machine": machine(),
        "model": model.path.name,
        "costs": costs.to_json(),
        "kv_tokens": flags.kv_tokens,
        "shapes": names(flags.shapes),
        "programs": flags.programs,
        "seed": flags.seed,
        "repeats": flags.repeats,
        "commit": commit(),
    }
    for line in in_words(found):
        typer.echo(line)
    write_json(flags.json_path, to_json(found, about))
    if flags.html_path is not None:
        write_text(flags.html_path, validation_page(found, about))


def in_words(found: Validation) -> list[str]:
    """Orders of policies and errors of percentiles, a line each."""
    lines = []
    for rate, ranking in found.rankings.items():
        order = f"{len(ranking.ranked)} of {len(ranking.pairs)} pairs of policies are ranked"
        if ranking.tau is not None:
            order += f", tau {ranking.tau:.2f}"
        lines.append(f"{rate:.4g}/s: {order} (of all means: {ranking.plain_tau:.2f})")
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        worst = found.worst(share)
        verdict = "within" if worst <= MOST_ERROR else "beyond"
        lines += [
            f"{name}: at worst {worst:.1%} off, {verdict} {MOST_ERROR:.0%}",
            f"  within it {found.within(share)} of {len(found.cases)} cases",
        ]
        if len(found.cases[0].measured_s) > 1:
            lines.append(f"  one repeat on the engine by another: {found.repeats_within(share)}")
    return lines


def _policies(text: str) -> list[PolicyName]:
    arms = arms_named(text)
    found: list[PolicyName] = [arm.scheduler.policy for arm in arms]
    require(
        "oracle" not in found and all(arm.name == arm.scheduler.policy for arm in arms),
        f"--policies {text}: the engine serves by fcfs, lpm, plas and rwa",
        "Leave oracle, +gate and -gate out",
    )
    return found


def _play(engine: Callable[[Workload], Played]) -> Play:
    """The engine as validation plays it, with its steps and terms."""

    def play(workload: Workload) -> PlayedWorkload:
        played = engine(workload)
        latency_s = [sample["ended_s"] - sample["arrived_s"] for sample in played.samples]
        return PlayedWorkload(latency_s, played.steps, _terms(played))

    return play


def _terms(played: Played) -> Terms:
    """The terms of `sim.validate.terms_of`, measured."""
    calls = [call for sample in played.samples for call in sample["calls"]]
    waits = [wait for sample in played.samples for wait in sample["waits"]]
    firsts = [(call, at_s) for call in calls if (at_s := call["first_s"]) is not None]
    return {
        "steps": len(played.steps),
        "prefill_tokens": sum(step.prefill_tokens for step in played.steps),
        "decode_tokens": sum(step.decode_tokens for step in played.steps),
        "busy_s": sum(step.seconds for step in played.steps),
        "first_s": sum(at_s - call["began_s"] for call, at_s in firsts),
        "rest_s": sum(call["ended_s"] - at_s for call, at_s in firsts),
        "tool_s": sum(wait["ended_s"] - wait["began_s"] for wait in waits),
        "held_s": sum(call.get("held_s", 0.0) for call in calls),
    }


def _start_tokens(model: BenchModel) -> int:
    """Tokens that the model's template writes before the first message."""
    ask = chat().user(model.drawing.spell("start", 1))
    encoded = Codec.load(model.path).encode(ask.tools, ask.segments(), ask.history)
    return max(0, len(encoded.token_ids) - 1 - MESSAGE_TOKENS - 1)


def _costs(model: BenchModel, flags: ValidateFlags) -> SimCosts:
    if flags.costs:
        return load_costs(flags.costs)
    log("measuring what steps take")
    config = EngineConfig(model.path, threads=flags.threads)
    return anyio.run(partial(calibrate, config, seconds=flags.seconds, log=log))


def _loads(
    model: BenchModel, costs: SimCosts, flags: ValidateFlags
) -> list[tuple[float, Workload]]:
    found = []
    shares = dict.fromkeys(names(flags.shapes), 1.0)
    for number, load in enumerate(LOADS):
        drawn = draw_mix(model, flags.programs, shares, flags.seed + number)
        drawn = [_played(model, replace(one, serial=at)) for at, one in enumerate(drawn)]
        service_s = [sum(service_of(one, costs.step).values()) for one in drawn]
        rate = load * len(drawn) / sum(service_s)
        found.append((rate, poisson(drawn, rate, Random(f"loads {flags.seed} {number}"))))
    return found


def _played(model: BenchModel, program: ProgramTrace) -> ProgramTrace:
    """The program as it is played: if text makes no pattern, no output is given by a form."""
    if model.drawing.spell.word_letters is not None:
        return program
    nodes = tuple(
        replace(node, forced_tokens=0) if isinstance(node, TraceCall) else node
        for node in program.nodes
    )
    return replace(program, nodes=nodes)
