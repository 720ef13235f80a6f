"""Settings of quantised weights, checked before an engine starts."""

from __future__ import annotations

from dataclasses import replace
from typing import cast, get_args

from agentrt.base.config import EngineConfig, HeadWeights, WeightChoice
from agentrt.base.errors import UsageError

GROUPS = (0, 32, 64, 128)
"""Inputs that may share a scale; 0 takes what suits the format."""


def check_weights(config: EngineConfig) -> None:
    """Check the names and the group of quantised weights.

    Raises:
        UsageError: One is unknown, or means nothing beside the others.
    """
    _check("weights", config.weights, get_args(WeightChoice))
    _check("weight_group", config.weight_group, GROUPS)
    _check("head_weights", config.head_weights, get_args(HeadWeights))
    for name, default in (("weight_group", 0), ("head_weights", "auto")):
        if config.weights == "checkpoint" and getattr(config, name) != default:
            raise UsageError(
                f"EngineConfig({name}={getattr(config, name)!r}) is for quantised weights",
                hint="Give weights='int8' or weights='int4' too, or leave it",
            )


def with_weights(config: EngineConfig, weights: str) -> EngineConfig:
    """Settings of an engine with its weights as `--weights` says; "" changes nothing.

    Raises:
        UsageError: The name is that of no format.
    """
    if not weights:
        return config
    known = get_args(WeightChoice)
    if weights not in known:
        raise UsageError(f"--weights {weights!r} is no format", hint=f"give {_listed(known)}")
    return replace(config, weights=cast(WeightChoice, weights))


def _check(name: str, given: object, known: tuple[object, ...]) -> None:
    if given not in known:
        raise UsageError(
            f"EngineConfig({name}={given!r}) is unknown", hint=f"Give {_listed(known)}"
        )


def _listed(known: tuple[object, ...]) -> str:
    return f"{', '.join(str(one) for one in known[:-1])} or {known[-1]}"
