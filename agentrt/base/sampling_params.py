"""Sampling parameters of a generation."""

from __future__ import annotations

from agentrt.base.errors import UsageError
from agentrt.base.record import record

_RANGES = (
    ("max_tokens", "at least 1"),
    ("temperature", "within 0 and 10"),
    ("top_k", "0 or more"),
    ("top_p", "above 0, at most 1"),
    ("min_p", "within 0 and 1"),
    ("repetition_penalty", "above 0"),
    ("logprobs", "within 0 and 20"),
    ("stop", "at most 16 non-empty strings"),
)
"""Range of each parameter in words, in the order of checking."""


@record
class SamplingParams:
    """Sampling parameters of one generation.

    Attributes:
        max_tokens: Maximum number of tokens, the end token not counted.
        temperature: Divisor of the logits; 0 is greedy.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the smallest set of tokens with a total probability of p; 1 keeps all.
        min_p: Keep tokens at least `min_p` times as likely as the likeliest; 0 keeps all.
        presence_penalty: Subtracted once from the logit of each token already produced.
        frequency_penalty: Subtracted for each time a token was produced.
        repetition_penalty: Divides positive (multiplies negative) logits of tokens in the prompt
            or output; 1 does nothing.
        seed: Random seed; the same seed gives the same tokens whatever else runs.
        stop: Stop strings; they end the output and are not part of it.
        logprobs: Number of alternatives to report a token; 0 reports none.
        ignore_eos: End tokens do not end the output: only `max_tokens`, a stop string or the window
            does. End tokens and other special tokens are not sampled, so that the output stays one
            message. Not allowed together with a constraint, which ends its own output.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        holds = (
            self.max_tokens >= 1,
            0 <= self.temperature <= 10,
            self.top_k >= 0,
            0 < self.top_p <= 1,
            0 <= self.min_p <= 1,
            self.repetition_penalty > 0,
            0 <= self.logprobs <= 20,
            all(self.stop) and len(self.stop) <= 16,
        )
        if not all(holds):
            name, meaning = _RANGES[holds.index(False)]
            value = getattr(self, name)
            raise UsageError(f"{name}={value!r} is out of range", hint=f"Give {meaning}")
