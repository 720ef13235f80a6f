"""Service that a program needs of its engine, for the policy that knows it beforehand."""

from __future__ import annotations

from agentrt.lab.workloads import OutputOf, ProgramTrace, TraceCall
from agentrt.lab.workloads.trace import Part, parts
from agentrt.scheduler.estimates.step_model import StepTime

TYPICAL_BATCH = 8
"""Sequences that share a step's fixed part when an engine is busy."""


def service_of(program: ProgramTrace, step: StepTime) -> dict[str, float]:
    """Seconds of service of each call by its name: its share of the steps it will be in.

    What an earlier call of the program computed counts there; a prompt that several quote counts
    for the first of them.
    """
    seen: set[Part] = set()
    outputs = {call.name: call.output_tokens for call in program.calls()}
    return {call.name: _call_s(call, outputs, seen, step) for call in program.calls()}


def _call_s(call: TraceCall, outputs: dict[str, int], seen: set[Part], step: StepTime) -> float:
    fresh_tokens = context_tokens = 0
    for part in parts(call):
        tokens = outputs[part.call] if isinstance(part, OutputOf) else part.tokens
        context_tokens += tokens
        if part not in seen:
            seen.add(part)
            fresh_tokens += tokens
    seen.add(OutputOf(call.name))
    token_s = step.base_s / TYPICAL_BATCH + step.decode_s + step.kv_s * context_tokens
    drawn = max(1, call.output_tokens - call.forced_tokens)
    return step.prefill_s * fresh_tokens + drawn * token_s
