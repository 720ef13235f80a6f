"""How fast each program of a bench could be at the least, with inputs measured beside it.

Every distinct prefix is computed once, as early as it is known; tokens of one sequence follow each
other; tools begin with their last argument and take their time; code, queues and hops take none.
The bound is the longest path, or all the work at once where that takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from agentrt.analysis import (
    ForwardCosts,
    HardwareCosts,
    MachineRates,
    Step,
    model_work,
    step_costs,
)
from agentrt.analysis.model_shape import ModelShape
from agentrt.engine.ops.roofline import roofline_in_process
from agentrt.lab.arms.wire import StepTold
from agentrt.lab.bench.compound.ideal import CallShare, PrefixTree
from agentrt.lab.bench.compound.measure import ArmSamples
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.bench.compound.result import is_ours
from agentrt.lab.workloads.trace import ProgramTrace, ToolUse, TraceCall, needs


def bounds_of(
    rounds: Sequence[Round],
    samples: Mapping[str, ArmSamples],
    shape: ModelShape,
    dtype: str,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """By shape of program, our median latency and the medians of both bounds.

    Only for programs that were played one at a time: a bound of a program says little of a load.

    Args:
        rounds: That were played.
        samples: By arm.
        shape: Of the model.
        dtype: That it was computed in.
        tell: Called with what is being done.
    """
    name = next((name for name in samples if is_ours(name)), None)
    if name is None or any(len(one.programs) > 1 for one in rounds):
        return {}
    tell("measuring what the machine can do")
    limit = roofline_in_process("cpu", dtype)
    machine = MachineRates(limit.read_bytes_s, limit.flops_s)
    hardware = HardwareCosts(machine, model_work(shape, dtype))
    steps = step_costs([step_of(told) for all_ in samples[name].steps.values() for told in all_])
    tree = PrefixTree()
    least: dict[str, list[tuple[float, float | None]]] = {}
    for one in rounds:
        (program,) = one.programs
        shares = tree.add(program)
        if one.counts:
            by_steps = bound_s(program, shares, steps) if steps is not None else None
            found = (bound_s(program, shares, hardware), by_steps)
            least.setdefault(one.label, []).append(found)
    return {
        "machine": {"read_bytes_s": machine.read_bytes_s, "flops_s": machine.flops_s},
        "steps": None
        if steps is None
        else {
            "alone_s": steps.alone_s,
            "sequence_s": steps.sequence_s,
            "prompt_token_s": steps.prompt_token_s,
        },
        "shapes": {
            label: {
                "latency_s": median(sample.latency_s for sample in samples[name].all(label)),
                "hardware_s": median(pair[0] for pair in pairs),
                "steps_s": median(pair[1] for pair in pairs if pair[1] is not None)
                if steps is not None
                else None,
            }
            for label, pairs in least.items()
        },
    }


def bound_s(program: ProgramTrace, shares: Mapping[str, CallShare], costs: ForwardCosts) -> float:
    """Least seconds of a program, people's pauses left out.

    Args:
        program: Which.
        shares: What each of its calls adds to the tree of prefixes.
        costs: Of forwards.
    """
    first_s: dict[str, float] = {}
    end_s: dict[str, float] = {}
    context: dict[str, int] = {}
    for node in program.nodes:
        after_s = max((end_s[name] for name in node.after), default=0.0)
        if isinstance(node, TraceCall):
            share = shares[node.name]
            context[node.name] = share.prompt_tokens
            first_s[node.name] = _first_s(node, share, after_s, end_s, costs)
            more = node.output_tokens - node.forced_tokens - 1
            decode_s = costs.decode_s(max(0, more), share.prompt_tokens)
            end_s[node.name] = first_s[node.name] + decode_s
        elif isinstance(node, ToolUse):
            begins_s = after_s
            if node.plan and node.at_token:
                wrote_s = costs.decode_s(node.at_token - 1, context[node.plan])
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
        voters = sorted((call for call in counted if call.name in names), key=_length)
        counted = [call for call in counted if call.name not in names] + voters[:least]
    prompt = sum(shares[call.name].new_tokens for call in counted)
    output = sum(call.output_tokens - call.forced_tokens for call in counted)
    return max(path_s, costs.work_s(prompt, output))


def _length(call: TraceCall) -> int:
    return call.output_tokens


def _first_s(
    call: TraceCall,
    share: CallShare,
    after_s: float,
    end_s: Mapping[str, float],
    costs: ForwardCosts,
) -> float:
    """When its first token can be there: parts are computed in order, each once it is known."""
    quoted = max((end_s[name] for name in needs(call)), default=0.0)
    at_s = after_s
    if not share.new:  # all is known but the last token's output
        return max(at_s, quoted) + costs.pass_s(1, share.prompt_tokens)
    for part in share.new[:-1]:
        at_s = max(at_s, end_s.get(part.needs, 0.0))
        at_s += costs.prompt_s(part.tokens, share.prompt_tokens)
    last = share.new[-1]
    at_s = max(at_s, quoted)
    return at_s + costs.pass_s(last.tokens, share.prompt_tokens)


def step_of(told: StepTold) -> Step:
    """A step as an arm tells it."""
    seconds, prefill_tokens, decode_tokens, *_ = told
    return Step(seconds, prefill_tokens, decode_tokens)
