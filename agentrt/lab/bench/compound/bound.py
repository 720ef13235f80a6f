"""Lower bounds of each program's latency, from the machine's rates and from the engine's steps.

Every distinct prefix is computed once, as early as it is known; tokens of one sequence follow each
other; tools begin with their last argument and take their time; code, queues and hops take none.
The bound is the longest path, or all the work at once if that takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from agentrt.analysis import (
    ForwardCosts,
    HardwareCosts,
    MachineRates,
    ModelShape,
    Step,
    model_work,
    step_costs,
)
from agentrt.engine.process.roofline import measured_roofline
from agentrt.lab.bench.compound.arm_samples import ArmSamples
from agentrt.lab.bench.compound.ideal import CallShare, PrefixTree
from agentrt.lab.bench.compound.run import CompoundRun, is_ours
from agentrt.lab.progress import log
from agentrt.lab.workloads.trace import ProgramTrace, ToolUse, TraceCall, needs

_BOUNDS = ("hardware_s", "steps_s", "guessed_s")


def bounds_of(run: CompoundRun, shape: ModelShape) -> dict[str, Any]:
    """By shape of program, our median latency, the medians of all bounds, and those of programs.

    Only for programs that were played one at a time: a bound of a program says little of a load. If
    our arm was not played in this part, the bounds are those of an earlier one.

    Args:
        run: The run.
        shape: Shape of the model.
    """
    played = run.plays.samples
    name = next((name for name, one in played.items() if is_ours(name) and one.steps), None)
    if name is None or any(len(one.programs) > 1 for one in run.rounds):
        return run.plays.bounds
    log("measuring the machine's roofline")
    samples, dtype = played[name], run.config.served.dtype
    limit = measured_roofline("cpu", dtype)
    machine = MachineRates(limit.read_bytes_s, limit.flops_s)
    hardware = HardwareCosts(machine, model_work(shape, dtype))
    steps = step_costs([Step(*one[:3]) for all_ in samples.steps.values() for one in all_])
    tree = PrefixTree()
    guessed = guessed_shares(samples)
    bounds: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in run.rounds:
        (program,) = one.programs
        shares = tree.add(program)
        if one.counts and samples.has(one.key):
            share = guessed.get(program.name, 0.0)
            bounds.setdefault(one.label, {})[program.name] = {
                "hardware_s": bound_s(program, shares, hardware),
                "steps_s": None,
                "guessed_s": None,
            }
            if steps is not None:
                least = bound_s(program, shares, steps), bound_s(program, shares, steps, share)
                bounds[one.label][program.name] |= dict(zip(_BOUNDS[1:], least, strict=True))
    return {
        "machine": asdict(machine),
        "steps": None if steps is None else asdict(steps),
        "shapes": {
            label: {
                "latency_s": median(sample.latency_s for sample in samples.all(label)),
                **{name: _median(programs.values(), name) for name in _BOUNDS},
                "programs": programs,
            }
            for label, programs in bounds.items()
        },
    }


def guessed_shares(samples: ArmSamples) -> dict[str, float]:
    """By program, the share of the tokens that no form determined that were guessed and kept."""
    found: dict[str, float] = {}
    for play in samples.plays:
        for one in play.programs:
            free = sum(one.output_tokens.values()) - (one.forced_tokens or 0)
            found[one.name] = min(1.0, (one.drafted_tokens or 0) / max(1, free))
    return found


def _median(programs: Iterable[Mapping[str, float | None]], name: str) -> float | None:
    known = [value for one in programs if (value := one[name]) is not None]
    return median(known) if known else None


def bound_s(
    program: ProgramTrace,
    shares: Mapping[str, CallShare],
    costs: ForwardCosts,
    guessed: float = 0.0,
) -> float:
    """Least seconds of a program, without people's pauses.

    Args:
        program: The program.
        shares: Shares of its calls in the tree of prefixes.
        costs: Costs of forwards.
        guessed: Share of the free output tokens that take no step, since they were guessed.
    """
    left = 1 - guessed
    first_s: dict[str, float] = {}
    end_s: dict[str, float] = {}
    for node in program.nodes:
        after_s = max((end_s[name] for name in node.after), default=0.0)
        if isinstance(node, TraceCall):
            share = shares[node.name]
            first_s[node.name] = _first_s(node, share, after_s, end_s, costs)
            more = left * (node.output_tokens - node.forced_tokens - 1)
            decode_s = costs.decode_s(max(0, round(more)), share.prompt_tokens)
            end_s[node.name] = first_s[node.name] + decode_s
        elif isinstance(node, ToolUse):
            begins_s = after_s
            if node.plan and node.at_token:
                wrote_s = costs.decode_s(node.at_token - 1, shares[node.plan].prompt_tokens)
                begins_s = max(begins_s, min(first_s[node.plan] + wrote_s, end_s[node.plan]))
            elif node.plan:
                begins_s = max(begins_s, end_s[node.plan])
            end_s[node.name] = begins_s + node.seconds
        else:
            end_s[node.name] = max((end_s[name] for name in needs(node)), default=0.0)
    path_s = max((end_s[name] for name in program.result), default=0.0)
    counted = list(program.calls())
    if program.quorum is not None:
        names, least = program.quorum
        path_s = max(path_s, sorted(end_s[name] for name in names)[least - 1])
        voters = [call for call in counted if call.name in names]
        voters.sort(key=lambda call: call.output_tokens)
        counted = [call for call in counted if call.name not in names] + voters[:least]
    prompt = sum(shares[call.name].new_tokens for call in counted)
    output = round(left * sum(call.output_tokens - call.forced_tokens for call in counted))
    return max(path_s, costs.work_s(prompt, output))


def _first_s(
    call: TraceCall,
    share: CallShare,
    after_s: float,
    end_s: Mapping[str, float],
    costs: ForwardCosts,
) -> float:
    """Earliest instant of its first token: parts are computed in order, each once it is known."""
    quoted_s = max((end_s[name] for name in needs(call)), default=0.0)
    if not share.new:  # all is known but the last token's output
        return max(after_s, quoted_s) + costs.pass_s(1, share.prompt_tokens)
    at_s = after_s
    for part in share.new[:-1]:
        at_s = max(at_s, end_s.get(part.needs, 0.0))
        at_s += costs.prompt_s(part.tokens, share.prompt_tokens)
    return max(at_s, quoted_s) + costs.pass_s(share.new[-1].tokens, share.prompt_tokens)
