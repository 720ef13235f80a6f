"""Calls of a program that a greedy model answers with the same text: those with equal prompts."""

from __future__ import annotations

from collections.abc import Hashable

from agentrt.base.record import record
from agentrt.lab.workloads import OutputOf, ProgramTrace, TraceCall


@record
class GreedyText:
    """A text that one or more calls write, each as far as its output goes.

    Attributes:
        call: Name of the first of the calls.
        tokens: Length of the longest of their outputs.
    """

    call: str
    tokens: int


def greedy_texts(trace: ProgramTrace) -> dict[str, GreedyText]:
    """The text of each call, by name.

    Two prompts are equal too if they quote the outputs of different calls that write equal text.
    """
    firsts: dict[Hashable, str] = {}
    first_of: dict[str, str] = {}
    longest: dict[str, int] = {}
    outputs = {call.name: call.output_tokens for call in trace.calls()}
    for call in trace.calls():  # in a topological order
        first = firsts.setdefault(_key(call, first_of, outputs), call.name)
        first_of[call.name] = first
        longest[first] = max(longest.get(first, 0), call.output_tokens)
    return {name: GreedyText(first, longest[first]) for name, first in first_of.items()}


def _key(call: TraceCall, first_of: dict[str, str], outputs: dict[str, int]) -> Hashable:
    """The prompt of a call with each quoted text by its first call; the form of its output."""
    prompt = tuple(
        (
            role,
            tuple(
                (first_of[part.call], outputs[part.call]) if isinstance(part, OutputOf) else part
                for part in message
            ),
        )
        for role, message in call.prompt
    )
    return prompt, call.forced_tokens and (call.output_tokens, call.forced_tokens)
