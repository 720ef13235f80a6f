"""Minimum time to compute tokens: by the machine's rates, or by an engine's measured steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Protocol

from agentrt.base.record import record


class ForwardCosts(Protocol):
    """Minimum times of forwards.

    Arguments are numbers of tokens; `context` counts all tokens attended to, new ones included.
    """

    def prompt_s(self, new: int, context: int) -> float:
        """Minimum time of a part of a prompt, beside any other work of the engine."""

    def pass_s(self, new: int, context: int) -> float:
        """Minimum time of the forward over the end of a prompt, which gives the first token."""

    def decode_s(self, tokens: int, context: int) -> float:
        """Minimum time of further output tokens of one sequence, one after the other."""

    def work_s(self, prompt: int, output: int) -> float:
        """Minimum time of tokens of prompts and outputs, in batches of any size."""


@record
class MachineRates:
    """Highest rates of a machine, as measured.

    Attributes:
        read_bytes_s: Memory bandwidth, streaming.
        flops_s: Multiplications and additions a second in large products.
    """

    read_bytes_s: float
    flops_s: float


@record
class ModelWork:
    """Work of a model per token and per forward pass.

    Attributes:
        weight_bytes: Bytes of weights read by every forward.
        flops_a_token: Operations of the layers for a token.
        flops_a_history_token: Further operations for each token attended to.
        head_flops: Operations of the output layer, for rows with logits.
        kv_bytes_a_token: Bytes of the keys and values of one token.
    """

    weight_bytes: float
    flops_a_token: float
    flops_a_history_token: float
    head_flops: float
    kv_bytes_a_token: float


@record
class HardwareCosts:
    """Costs by the hardware's rates: nothing that computes the model in its dtype is faster.

    Attributes:
        machine: Rates of the machine.
        model: Work of the model.
    """

    machine: MachineRates
    model: ModelWork

    def prompt_s(self, new: int, context: int) -> float:
        return self._flops(new, context) / self.machine.flops_s

    def pass_s(self, new: int, context: int) -> float:
        flops = self._flops(new, context) + self.model.head_flops
        return max(flops / self.machine.flops_s, self._read_s(context))

    def decode_s(self, tokens: int, context: int) -> float:
        middle = context + tokens // 2
        flops = self._flops(1, middle) + self.model.head_flops
        return tokens * max(flops / self.machine.flops_s, self._read_s(middle))

    def work_s(self, prompt: int, output: int) -> float:
        flops = (prompt + output) * self.model.flops_a_token + output * self.model.head_flops
        return flops / self.machine.flops_s

    def _flops(self, new: int, context: int) -> float:
        history = max(0.0, context - new / 2)
        return new * (self.model.flops_a_token + self.model.flops_a_history_token * history)

    def _read_s(self, context: int) -> float:
        bytes_ = self.model.weight_bytes + context * self.model.kv_bytes_a_token
        return bytes_ / self.machine.read_bytes_s


@record
class Step:
    """One step of an engine, with its duration.

    Attributes:
        seconds: Time from scheduling to tokens.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Sequences that got a token.
    """

    seconds: float
    prefill_tokens: int
    decode_tokens: int


@record
class StepCosts:
    """Costs by the engine's own steps, as if nothing happened between forwards.

    Attributes:
        alone_s: Time of a step that decodes one sequence.
        sequence_s: Further time for each other sequence.
        prompt_token_s: Further time for each prompt token.
    """

    alone_s: float
    sequence_s: float
    prompt_token_s: float

    def prompt_s(self, new: int, context: int) -> float:
        return new * self.prompt_token_s

    def pass_s(self, new: int, context: int) -> float:
        return self.alone_s + max(0, new - 1) * self.prompt_token_s

    def decode_s(self, tokens: int, context: int) -> float:
        return tokens * self.alone_s

    def work_s(self, prompt: int, output: int) -> float:
        return prompt * self.prompt_token_s + output * self.sequence_s


def step_costs(steps: Sequence[Step]) -> StepCosts | None:
    """Durations of steps by kind, as medians; None if no step decoded a sequence alone."""
    pure = [step for step in steps if not step.prefill_tokens and step.decode_tokens]
    alone = [step.seconds for step in pure if step.decode_tokens == 1]
    if not alone:
        return None
    alone_s = median(alone)
    more = (
        (step.seconds - alone_s) / (step.decode_tokens - 1)
        for step in pure
        if step.decode_tokens > 1
    )
    sequence_s = _median(more)
    prompts = (
        (step.seconds - alone_s - step.decode_tokens * sequence_s) / step.prefill_tokens
        for step in steps
        if step.prefill_tokens >= _MIN_PROMPT_TOKENS
    )
    return StepCosts(alone_s, sequence_s, _median(prompts))


_MIN_PROMPT_TOKENS = 64
"""Minimum prompt tokens of a timed step; below, their share is lost in the rest."""


def _median(values: Iterable[float]) -> float:
    return max(0.0, median([*values] or [0.0]))
