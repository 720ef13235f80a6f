"""Sampling parameters of a generation."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.ranges import NumberRange, has_lone_surrogate, shown
from agentrt.base.record import record

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 1024

MAX_INT32 = 2**31 - 1
_MAX_PENALTY = 100
_PENALTY = NumberRange(-_MAX_PENALTY, _MAX_PENALTY, "within -100 and 100")
_TINY = 5e-324

SAMPLING_RANGES = {
    "max_tokens": NumberRange(1, MAX_INT32, "at least 1, at most 2^31 - 1", integral=True),
    "temperature": NumberRange(0, 10, "within 0 and 10"),
    "top_k": NumberRange(0, MAX_INT32, "0 or more, at most 2^31 - 1", integral=True),
    "top_p": NumberRange(_TINY, 1, "above 0, at most 1"),
    "min_p": NumberRange(0, 1, "within 0 and 1"),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "repetition_penalty": NumberRange(0.01, 100, "within 0.01 and 100"),
    "seed": NumberRange(-(2**63), 2**64 - 1, "an integer of 64 bits", integral=True),
    "logprobs": NumberRange(0, 20, "within 0 and 20", integral=True),
}
"""Range of each number, in the order of checking; the kernels compute in 32 bits."""


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
        for name, allowed, default in _CHECKED:
            value = getattr(self, name)
            if value is not default and not allowed.holds(value):
                raise _out_of_range(name, value, allowed.meaning)
        if not self.stop:
            return
        if len(self.stop) > MAX_STOPS or not all(self.stop):
            raise _out_of_range("stop", self.stop, f"at most {MAX_STOPS} non-empty strings")
        for text in self.stop:
            if len(text) > MAX_STOP_CHARACTERS:
                meaning = f"strings of at most {MAX_STOP_CHARACTERS} characters"
                raise _out_of_range("stop", text, meaning)
            if has_lone_surrogate(text):
                raise _out_of_range("stop", text, "no half of a surrogate pair")

    def with_seed(self, seed: int) -> SamplingParams:
        """The same with another seed, of 64 bits; each node has one, so nothing is checked again.

        Example:
            >>> SamplingParams(top_k=3).with_seed(7) == SamplingParams(top_k=3, seed=7)
            True
        """
        made: Any = object.__new__(SamplingParams)
        made.max_tokens = self.max_tokens
        made.temperature = self.temperature
        made.top_k = self.top_k
        made.top_p = self.top_p
        made.min_p = self.min_p
        made.presence_penalty = self.presence_penalty
        made.frequency_penalty = self.frequency_penalty
        made.repetition_penalty = self.repetition_penalty
        made.seed = seed
        made.stop = self.stop
        made.logprobs = self.logprobs
        made.ignore_eos = self.ignore_eos
        return made  # type: ignore[no-any-return]


_DEFAULTS = {one.name: one.default for one in fields(SamplingParams)}
_CHECKED = tuple((name, allowed, _DEFAULTS[name]) for name, allowed in SAMPLING_RANGES.items())
"""Numbers to check, each with its default: most are left as they are, and each node has some."""


def _out_of_range(name: str, value: object, meaning: str) -> UsageError:
    return UsageError(f"{name}={shown(value)} is out of range", hint=f"Give {meaning}")


def sampling_attributes(sampling: SamplingParams) -> dict[str, Any]:
    """Attributes of spans by the GenAI conventions; parameters that do nothing have none.

    Example:
        >>> sampling_attributes(SamplingParams(max_tokens=9, stop=("END",)))["gen_ai.request.seed"]
        0
    """
    found: dict[str, Any] = {
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.seed": sampling.seed,
    }
    if sampling.top_p != 1.0:
        found["gen_ai.request.top_p"] = sampling.top_p
    if sampling.top_k:
        found["gen_ai.request.top_k"] = sampling.top_k
    if sampling.stop:
        found["gen_ai.request.stop_sequences"] = sampling.stop
    if sampling.presence_penalty:
        found["gen_ai.request.presence_penalty"] = sampling.presence_penalty
    if sampling.frequency_penalty:
        found["gen_ai.request.frequency_penalty"] = sampling.frequency_penalty
    return found
