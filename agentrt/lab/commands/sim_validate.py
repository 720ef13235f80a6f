"""`agentrt sim validate`: the simulator held against the real engine, on this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import anyio

from agentrt.base.config import EngineConfig, PolicyName
from agentrt.base.errors import UsageError
from agentrt.lab.bench.compound.real_time import RealTime, ScaledModel, stage_of
from agentrt.lab.bench.engine.result import machine
from agentrt.lab.commands.bench import tell
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.calibrate import calibrate
from agentrt.lab.sim.costs import SimCosts, load_costs
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.sim.validate import Play, PlayedWorkload, Terms, Validation, validate
from agentrt.lab.workloads import ProgramTrace, TraceCall, Workload
from agentrt.lab.workloads.arrivals import poisson
from agentrt.program import chat
from agentrt.prompt import Codec

LOADS = (0.5, 0.3, 0.6, 0.9)
"""Of what the engine could do, about; the first one only warms up."""


def run_validation(
    *,
    shape: str,
    costs: str,
    policies: str,
    shapes: Sequence[str],
    programs: int,
    kv_tokens: int,
    threads: int,
    seconds: float,
    seed: int,
    repeats: int,
) -> tuple[Validation, dict[str, Any]]:
    """Measure, simulate, compare; and what it was done with.

    Raises:
        UsageError: Something was asked for that there is not.
        BenchFailed: A program failed on the engine.
    """
    arms = arms_named(policies)
    chosen: list[PolicyName] = [arm.scheduler.policy for arm in arms]
    if "oracle" in chosen or any(arm.name != arm.scheduler.policy for arm in arms):
        raise UsageError(
            f"--policies {policies}: the engine serves by fcfs, lpm, plas and rwa",
            hint="Leave oracle, +gate and -gate out",
        )
    if programs < 4:
        raise UsageError(f"--programs {programs} says nothing", hint="Give 4 or more; 24 or so")
    if repeats < 1:
        raise UsageError(f"--repeats {repeats} measures nothing", hint="Give 1 or more; 2 or so")
    stage = stage_of(shape)
    known = _costs(stage, costs, threads=threads, seconds=seconds)
    loads = _loads(stage, known, shapes, programs, seed)
    setup = Setup(known, kv_tokens, start_tokens=_start_tokens(stage))
    with ExitStack() as stack:
        players = {
            policy: _play(
                RealTime(
                    stage, policy, kv_tokens=kv_tokens, threads=threads, dtype="auto", stack=stack
                )
            )
            for policy in chosen
        }
        found = validate(players, loads, setup, repeats=repeats, tell=tell)
    about = {
        "command": sys.argv[1:],
        "machine": machine(),
        "model": stage.model.name,
        "costs": known.to_json(),
        "kv_tokens": kv_tokens,
        "shapes": list(shapes),
        "programs": programs,
        "seed": seed,
        "repeats": repeats,
    }
    return found, about


def _play(engine: RealTime) -> Play:
    """The engine as validation wants it, with the steps and the generations that it told."""

    def play(workload: Workload) -> PlayedWorkload:
        latency_s = engine.play(workload)
        return PlayedWorkload(latency_s, engine.steps, _terms(engine))

    return play


def _terms(engine: RealTime) -> Terms:
    """As `sim.validate.terms_of` has them, of the last play."""
    calls = [call for told in engine.told for call in told["calls"]]
    waits = [wait for told in engine.told for wait in told["waits"]]
    firsts = [(call, call["first_s"]) for call in calls]
    return {
        "steps": len(engine.steps),
        "prefill_tokens": sum(step[1] for step in engine.steps),
        "decode_tokens": sum(step[2] for step in engine.steps),
        "busy_s": sum(step[0] for step in engine.steps),
        "first_s": sum(at_s - call["began_s"] for call, at_s in firsts if at_s is not None),
        "rest_s": sum(call["ended_s"] - at_s for call, at_s in firsts if at_s is not None),
        "tool_s": sum(wait["ended_s"] - wait["began_s"] for wait in waits),
        "held_s": sum(call.get("held_s", 0.0) for call in calls),
    }


def _start_tokens(stage: ScaledModel) -> int:
    """What the model's template writes before the first message."""
    ask = chat().user(stage.drawing.spell("start", 1))
    encoded = Codec.load(stage.model).encode(ask.tools, ask.segments(), ask.history)
    return max(0, len(encoded.token_ids) - 1 - MESSAGE_TOKENS - 1)


def _costs(stage: ScaledModel, costs: str, *, threads: int, seconds: float) -> SimCosts:
    if costs:
        return load_costs(costs)
    tell("measuring what steps take")
    config = EngineConfig(stage.model, threads=threads)
    return anyio.run(partial(calibrate, config, seconds=seconds, tell=tell))


def _loads(
    stage: ScaledModel, costs: SimCosts, shapes: Sequence[str], programs: int, seed: int
) -> list[tuple[float, Workload]]:
    found = []
    for number, load in enumerate(LOADS):
        drawn = stage.draw(programs, dict.fromkeys(shapes, 1.0), seed + number)
        drawn = [_played(stage, replace(one, serial=at)) for at, one in enumerate(drawn)]
        service_s = sum(sum(service_of(one, costs.step).values()) for one in drawn) / programs
        rate = load / service_s
        found.append((rate, poisson(drawn, rate, Random(f"loads {seed} {number}"))))
    return found


def _played(stage: ScaledModel, program: ProgramTrace) -> ProgramTrace:
    """The program as it is played: with text that makes no pattern nothing is given by a form."""
    if stage.drawing.spell.word_letters is not None:
        return program
    nodes = tuple(
        replace(node, forced_tokens=0) if isinstance(node, TraceCall) else node
        for node in program.nodes
    )
    return replace(program, nodes=nodes)
