"""How programs are played on a real engine, as far as a simulation has to know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from agentrt.lab.arms.program_arm import Played
from agentrt.lab.bench.compound.model import BenchModel
from agentrt.lab.bench.compound.real_time import draw_mix
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.sim.validate import Play, PlayedWorkload, Terms
from agentrt.lab.workloads.arrivals import poisson
from agentrt.lab.workloads.trace import ProgramTrace, TraceCall, Workload
from agentrt.program import chat
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.prompt import Codec


def start_tokens(model: BenchModel) -> int:
    """Tokens that the model's template writes before the first message."""
    ask = chat().user(model.drawing.spell("start", 1))
    encoded = Codec.load(model.path).encode(ask.tools, prompt_segments(ask), ask.history)
    return max(0, len(encoded.token_ids) - 1 - MESSAGE_TOKENS - 1)


def played_form(model: BenchModel, program: ProgramTrace) -> ProgramTrace:
    """The program as it is played: if text makes no pattern, no output is given by a form."""
    if model.drawing.spell.word_letters is not None:
        return program
    nodes = tuple(
        replace(node, forced_tokens=0) if isinstance(node, TraceCall) else node
        for node in program.nodes
    )
    return replace(program, nodes=nodes)


def mix_at(
    load: float,
    model: BenchModel,
    costs: SimCosts,
    shapes: Sequence[str],
    programs: int,
    seed: int,
) -> tuple[float, Workload]:
    """A rate, and programs of all shapes alike that arrive at it.

    Args:
        load: Rate by the rate that the engine could serve, roughly.
        model: Model of the engine.
        costs: Costs of its steps.
        shapes: Names of shapes.
        programs: Number of programs.
        seed: Seed of programs and arrivals.
    """
    drawn = draw_mix(model, programs, dict.fromkeys(shapes, 1.0), seed)
    drawn = [played_form(model, replace(one, serial=at)) for at, one in enumerate(drawn)]
    service_s = [sum(service_of(one, costs.step).values()) for one in drawn]
    rate = load * len(drawn) / sum(service_s)
    return rate, poisson(drawn, rate, Random(f"loads {seed}"))


def player(engine: Callable[[Workload], Played]) -> Play:
    """A real engine as it is held against simulations, with its steps and terms."""

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
