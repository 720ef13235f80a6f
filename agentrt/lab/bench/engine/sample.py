"""What an arm tells of one round, and the checks that make rounds comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentrt.lab.errors import BenchFailed


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one arm.

    Attributes:
        prefill_s: From the first submission to the last first token.
        decode_s: Of the steps in which every sequence had one token, and nothing else happened.
        decode_steps: How many those were.
        output_tokens: Produced, by sequence.
        output_hash: Of all token ids, sequence after sequence.
        cached_tokens: Prompt tokens, over all sequences, that were found and not computed.
    """

    prefill_s: float
    decode_s: float
    decode_steps: int
    output_tokens: tuple[int, ...]
    output_hash: str
    cached_tokens: int = 0

    @property
    def step_s(self) -> float:
        """A decode step, on average."""
        return self.decode_s / self.decode_steps

    def to_json(self) -> dict[str, Any]:
        """As a benchmark's file holds it."""
        return asdict(self)


def sample_from(told: Mapping[str, Any], *, arm: str) -> Sample:
    """The sample that an arm's process wrote.

    Raises:
        BenchFailed: It told an error, or nothing that can be divided by.
    """
    if told.get("error"):
        raise BenchFailed(f"{arm} failed: {told['error']}", hint=str(told.get("hint") or ""))
    outputs: Sequence[Sequence[int]] = told["outputs"]
    if told["decode_steps"] < 1 or told["decode_s"] <= 0 or told["prefill_s"] <= 0:
        raise BenchFailed(
            f"{arm} had no decode step of its own ({told['decode_steps']} steps)",
            hint="Raise --new, so that all sequences decode together for a while",
        )
    return Sample(
        prefill_s=float(told["prefill_s"]),
        decode_s=float(told["decode_s"]),
        decode_steps=int(told["decode_steps"]),
        output_tokens=tuple(len(ids) for ids in outputs),
        output_hash=hash_of(outputs),
        cached_tokens=int(told.get("cached_tokens", 0)),
    )


def hash_of(outputs: Sequence[Sequence[int]]) -> str:
    """A short name of some token ids."""
    text = json.dumps([list(ids) for ids in outputs], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_equal_work(samples: Mapping[str, Sample], *, row: str) -> None:
    """That all arms of a round produced as many tokens for each sequence.

    Raises:
        BenchFailed: They did not.
    """
    counts = {name: sample.output_tokens for name, sample in samples.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name}: {sum(tokens)}" for name, tokens in counts.items())
        raise BenchFailed(
            f"arms produced unlike numbers of tokens in {row} ({said})",
            hint="An arm that does less work is no peer: see why it stopped",
        )
