"""The points of a sweep, and the prompts of a round, drawn from a seed."""

from __future__ import annotations

import random
from itertools import product

from agentrt.analysis.model_shape import ModelShape
from agentrt.analysis.model_work import DecodeWork, decode_work, prefill_flops
from agentrt.base.record import record
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.weights import FIRST_WORD_ID
from agentrt.lab.flags import names, numbers, require

_LEAST_RUNNING = 64


@record
class SweepPoint:
    """One point of a sweep.

    Attributes:
        batch: Sequences at once.
        prompt_tokens: Prompt of each sequence, shared part included.
        new_tokens: Tokens that each sequence produces.
        shared_tokens: Length of the prefix that all prompts share.
        dtype: Dtype of the computation.
        weights: Weights of our engine: "checkpoint", "int8" or "int4".
        kv_cache_dtype: KV of our engine: "auto", "int8" or "fp8".
    """

    batch: int
    prompt_tokens: int
    new_tokens: int
    shared_tokens: int
    dtype: str
    weights: str = "checkpoint"
    kv_cache_dtype: str = "auto"

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        shared = f" shared={self.shared_tokens}" if self.shared_tokens else ""
        weights = "" if self.weights == "checkpoint" else f" {self.weights}"
        kv = "" if self.kv_cache_dtype == "auto" else f" kv={self.kv_cache_dtype}"
        return f"B={self.batch} prompt={self.prompt_tokens}{shared} {self.dtype}{weights}{kv}"

    @property
    def all_prompt_tokens(self) -> int:
        """Prompt tokens of all sequences, shared parts counted for each."""
        return self.batch * self.prompt_tokens

    @property
    def pages(self) -> int:
        """KV pages of two rounds, so that one round never waits for memory."""
        one = -(-(self.prompt_tokens + self.new_tokens) // PAGE_TOKENS) + 1
        return 2 * self.batch * one + 64

    @property
    def running(self) -> int:
        """Sequences that an engine must be able to run at once."""
        return max(self.batch, _LEAST_RUNNING)

    def decode_work(self, shape: ModelShape) -> DecodeWork:
        """Work of a decode step in the middle of the outputs."""
        history_tokens = self.prompt_tokens + self.new_tokens / 2
        return decode_work(
            shape,
            self.dtype,
            batch=self.batch,
            history_tokens=history_tokens,
            shared_tokens=self.shared_tokens,
            weights=self.weights,
            kv_cache_dtype=self.kv_cache_dtype,
        )

    def prefill_flops(self, shape: ModelShape) -> float:
        """Operations that compute all prompts, the shared prefix once."""
        shared = self.shared_tokens
        flops = prefill_flops(shape, shared) if shared else 0.0
        return flops + self.batch * prefill_flops(shape, self.prompt_tokens, shared)


def points_of(shape: ModelShape, flags: EngineFlags) -> list[SweepPoint]:
    """Every combination; a shared prefix precedes the prompt's own tokens.

    Raises:
        UsageError: A flag is no list of numbers, or a point does not fit the shape.
    """
    shared, prompts = numbers(flags.shared, "--shared"), numbers(flags.prompt, "--prompt")
    batches = numbers(flags.batch, "--batch")
    found = [
        SweepPoint(
            batch, first + prompt, flags.new, first, dtype, flags.weights, flags.kv_cache_dtype
        )
        for dtype, first, prompt, batch in product(names(flags.dtype), shared, prompts, batches)
    ]
    for point in found:
        require(
            point.prompt_tokens + flags.new <= shape.window_tokens,
            f"{point.name} and {flags.new} new tokens do not fit the "
            f"{shape.window_tokens} tokens of {shape.name}",
            "Lower --prompt, --shared or --new",
        )
    return found


def prompts_of(point: SweepPoint, vocabulary: int, round_number: int) -> list[list[int]]:
    """Token ids of a round, `[batch][prompt_tokens]`; no two rounds share a prefix."""
    generator = random.Random(f"{point.name} {round_number}")

    def words(count: int) -> list[int]:
        return generator.choices(range(FIRST_WORD_ID, vocabulary), k=count)

    prefix = words(point.shared_tokens)
    own_tokens = point.prompt_tokens - point.shared_tokens
    return [prefix + words(own_tokens) for _ in range(point.batch)]
