"""Options of a call, checked once: a loop gives the same ones to each of its generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.program.options import PHASES, RETRIES, PlainGenOptions, check_options, sampling_of
from agentrt.protocol.backend import OnLimit

_MAX_KEPT = 1024
_kept: dict[tuple[object, ...], CallOptions] = {}
"""Checked options by their names, values and types: `1 == True`, and one of the two is no count."""


@record
class CallOptions:
    """Options of one generation, checked.

    Attributes:
        sampling: How tokens are picked, with seed 0 if none is given.
        seed: The seed of the generation, or None for one of its own.
        name: Name of the node, or "".
        model: Role of the engine.
        on_limit: Behaviour at a limit; None leaves it to the scope.
        deadline_s: Seconds for the generation, or None.
        thinking_tokens: Most tokens of reasoning, or None.
        scored: Whether the options of a choice are scored.
        retries: How often a checked output may be generated again.
        cache: Whether the response cache is used; None leaves it to the engine.
        has_phases: Whether some of them depend on the output, so that they are checked against it.
    """

    sampling: SamplingParams
    seed: int | None
    name: str
    model: str
    on_limit: OnLimit | None
    deadline_s: float | None
    thinking_tokens: int | None
    scored: bool
    retries: int
    cache: bool | None
    has_phases: bool

    def with_max_tokens(self, max_tokens: int) -> CallOptions:
        """The same with another limit of the output."""
        if max_tokens == self.sampling.max_tokens:
            return self
        return replace(self, sampling=replace(self.sampling, max_tokens=max_tokens))

    def sampling_with(self, seed: int) -> SamplingParams:
        """The sampling parameters; `seed` stands in for one that is not given."""
        return self.sampling if self.seed is not None else self.sampling.with_seed(seed)


def checked_options(options: PlainGenOptions) -> CallOptions:
    """The options of a call.

    Raises:
        UsageError: An option does not exist or is out of range.
    """
    given: Mapping[str, Any] = options
    if "on_overflow" in given:  # a function, which may hold chats
        return _checked(options)
    values = given.values()
    key = (*given, *values, *map(type, values))
    try:
        known = _kept.get(key)
    except TypeError:  # not hashable, such as a list of stop strings
        return _checked(options)
    if known is None:
        known = _kept[key] = _checked(options)
        if len(_kept) > _MAX_KEPT:
            del _kept[next(iter(_kept))]
    return known


def _checked(options: PlainGenOptions) -> CallOptions:
    check_options(options)
    return CallOptions(
        sampling_of(options, 0),
        options.get("seed"),
        options.get("name", ""),
        options.get("model", "default"),
        options.get("on_limit"),
        options.get("deadline"),
        options.get("thinking"),
        options.get("scored", False),
        options.get("retries", RETRIES),
        options.get("cache"),
        not PHASES.isdisjoint(options),
    )
