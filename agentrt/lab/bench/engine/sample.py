"""The sample of one round, and the checks that make samples comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.errors import BenchFailed


@record
class Sample:
    """One round of one arm.

    Attributes:
        prefill_s: Seconds from the first submission to the last first token.
        decode_s: Seconds of the steps in which every sequence got one token, and nothing else.
        decode_steps: Number of these steps.
        output_tokens: Tokens produced, by sequence.
        output_hash: Hash of all token ids, sequence after sequence.
        cached_tokens: Prompt tokens of all sequences that were found in the cache.
    """

    prefill_s: float
    decode_s: float
    decode_steps: int
    output_tokens: tuple[int, ...]
    output_hash: str
    cached_tokens: int = 0

    @property
    def step_s(self) -> float:
        """Mean seconds of a decode step."""
        return self.decode_s / self.decode_steps


def sample_from(answer: Mapping[str, Any], *, arm: str) -> Sample:
    """Read the answer of an arm.

    Raises:
        BenchFailed: There was no decode step, so a step has no mean time.
    """
    outputs: Sequence[Sequence[int]] = answer["outputs"]
    if answer["decode_steps"] < 1 or answer["decode_s"] <= 0 or answer["prefill_s"] <= 0:
        raise BenchFailed(
            f"{arm} had no decode step of its own ({answer['decode_steps']} steps)",
            hint="Raise --new, so that all sequences decode together for a while",
        )
    text = json.dumps([list(ids) for ids in outputs], separators=(",", ":"))
    return Sample(
        prefill_s=float(answer["prefill_s"]),
        decode_s=float(answer["decode_s"]),
        decode_steps=int(answer["decode_steps"]),
        output_tokens=tuple(len(ids) for ids in outputs),
        output_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
        cached_tokens=int(answer.get("cached_tokens", 0)),
    )


def measure_round(arm: ArmProcess, point: SweepPoint, vocabulary: int, number: int) -> Sample:
    """Compute one round; every arm gets the same prompts in the same round."""
    answer = arm.ask(
        "round",
        prompts=prompts_of(point, vocabulary, number),
        new_tokens=point.new_tokens,
        shared=point.shared_tokens,
    )
    return sample_from(answer, arm=arm.arm.name)


def check_equal_work(samples: Mapping[str, Sample], *, point: str) -> None:
    """Check that all arms of a round produced as many tokens for each sequence.

    Raises:
        BenchFailed: They did not.
    """
    counts = {name: sample.output_tokens for name, sample in samples.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name}: {sum(tokens)}" for name, tokens in counts.items())
        raise BenchFailed(
            f"arms produced unlike numbers of tokens in {point} ({shown})",
            hint="An arm that does less work is no peer: see why it stopped",
        )
