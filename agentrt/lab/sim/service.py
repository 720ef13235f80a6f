"""The true service of a program, for the policy `oracle`."""

from __future__ import annotations

from agentrt.lab.workloads import OutputOf, ProgramTrace, TraceCall
from agentrt.lab.workloads.trace import Part, parts
from agentrt.scheduler.estimates.step_model import StepTime

TYPICAL_BATCH = 8
"""Sequences that share the fixed time of a step on a busy engine."""


def service_of(program: ProgramTrace, step: StepTime) -> dict[str, float]:
    """Seconds of service of each call, by name: its share of the steps that compute it.

    Tokens that an earlier call of the program computed do not count again; a part of several
    prompts counts for the first.
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
