"""Settings of quantised weights, checked before an engine starts."""

from __future__ import annotations

from dataclasses import replace
from typing import cast, get_args

from agentrt.base.config import ActivationChoice, EngineConfig, HeadWeights, WeightChoice
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
    _check("activations", config.activations, get_args(ActivationChoice))
    for name, default in (("weight_group", 0), ("head_weights", "auto")):
        if config.weights == "checkpoint" and getattr(config, name) != default:
            raise UsageError(
                f"EngineConfig({name}={getattr(config, name)!r}) is for quantised weights",
                hint="Give weights='int8' or weights='int4' too, or leave it",
            )


def with_weights(config: EngineConfig, weights: str, activations: str = "") -> EngineConfig:
    """Settings of an engine as `--weights` and `--activations` say; "" changes nothing.

    Raises:
        UsageError: A name is that of no format.
    """
    if weights:
        _check_flag("--weights", weights, get_args(WeightChoice))
        config = replace(config, weights=cast(WeightChoice, weights))
    if activations:
        _check_flag("--activations", activations, get_args(ActivationChoice))
        config = replace(config, activations=cast(ActivationChoice, activations))
    return config


def _check_flag(flag: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UsageError(f"{flag} {given!r} is no format", hint=f"give {_listed(known)}")


def _check(name: str, given: object, known: tuple[object, ...]) -> None:
    if given not in known:
        raise UsageError(
            f"EngineConfig({name}={given!r}) is unknown", hint=f"Give {_listed(known)}"
        )


def _listed(known: tuple[object, ...]) -> str:
    return f"{', '.join(str(one) for one in known[:-1])} or {known[-1]}"
