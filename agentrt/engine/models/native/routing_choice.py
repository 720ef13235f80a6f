"""From the setting of expert routing to the function that routes."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.base.errors import UsageError
from agentrt.base.expert_routing import ExpertRouting
from agentrt.engine.models.native.routing import Capacity, Routing, Threshold, trained
from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.ops.experts import Routes

RoutingFunction = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""Takes the router's scores `[T, E]` and the number of experts of a token; returns the experts
`[T, A]` int64, where E stands for none, and their weights `[T, A]`."""


@dataclass(frozen=True, slots=True)
class FunctionRouting:
    """Routing by a function of the user.

    Attributes:
        name: Name of the function, for errors.
        function: The function.
    """

    name: str
    function: RoutingFunction

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """See `Routing`.

        Raises:
            UsageError: The function returned something else than two tensors of this form.
        """
        found = self.function(scores, shape.experts_per_token)
        if not _fits(found, scores.shape[0], shape.experts_per_token):
            raise UsageError(
                f"{self.name} returned no experts and weights for {scores.shape[0]} tokens",
                hint=f"Return int64 [tokens, A] and floating [tokens, A], A at most "
                f"{shape.experts_per_token}",
            )
        chosen, shares = found
        return Routes(chosen.contiguous(), shares.contiguous())


def routing_of(setting: ExpertRouting) -> Routing:
    """The function that routes.

    Raises:
        UsageError: The function that is named cannot be imported.
    """
    if setting.kind == "threshold":
        return Threshold(setting.value)
    if setting.kind == "capacity":
        return Capacity(setting.value, "drop" if setting.drops else "next")
    if setting.kind == "trained":
        return trained
    try:
        return FunctionRouting(setting.function, pkgutil.resolve_name(setting.function))
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"EngineConfig(expert_routing={setting.function!r}) cannot be imported: {error}",
            hint="Name a function of an installed module: the engine has a process of its own",
        ) from error


def _fits(found: object, rows: int, most: int) -> bool:
    if not isinstance(found, tuple) or len(found) != 2:
        return False
    chosen, shares = found
    if not isinstance(chosen, Tensor) or not isinstance(shares, Tensor):
        return False
    return (
        chosen.dtype is torch.int64
        and shares.is_floating_point()
        and chosen.shape == shares.shape
        and chosen.dim() == 2
        and chosen.shape[0] == rows
        and chosen.shape[1] <= most
    )
