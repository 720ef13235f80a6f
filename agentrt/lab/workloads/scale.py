"""The scale of a workload, so that a small machine gets through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from agentrt.base.errors import UsageError
from agentrt.base.record import record


@record
class Scale:
    """Factors on the quantities that a shape draws; 1 is life size.

    Attributes:
        context: Factor on the lengths of prompts and results.
        output: Factor on the lengths of outputs.
        time: Factor on the durations of tools.
        count: Factor on fan-outs and the number of turns.
        think: Factor on people's pauses.

    Raises:
        UsageError: A factor is not positive (a pause may be left out).
    """

    context: float = 1.0
    output: float = 1.0
    time: float = 1.0
    count: float = 1.0
    think: float = 1.0

    def __post_init__(self) -> None:
        for name, factor in asdict(self).items():
            in_range = 0 <= factor <= 100 if name == "think" else 0 < factor <= 100
            if not in_range:
                raise UsageError(
                    f"the scale {name}={factor} is out of range",
                    hint="Give a factor above 0 and at most 100; think=0 leaves pauses out",
                )

    def with_factors(self, factors: Mapping[str, float]) -> Scale:
        """The scale with some factors replaced.

        Raises:
            UsageError: There is no such factor, or it is out of range.
        """
        known = asdict(self)
        for name in factors:
            if name not in known:
                hint = f"Use some of {', '.join(known)}"
                raise UsageError(f"--scale {name} is not known", hint=hint)
        return Scale(**{**known, **factors})

    def prompt_tokens(self, tokens: float) -> int:
        """Length of a known text, at least 1."""
        return max(1, round(tokens * self.context))

    def output_tokens(self, tokens: float) -> int:
        """Length of an output, at least 1."""
        return max(1, round(tokens * self.output))

    def many(self, number: float, least: int = 2) -> int:
        """A fan-out or a number of turns."""
        return max(least, round(number * self.count))
