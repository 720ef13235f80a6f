"""Routing as a model was trained, by the kernel set, which sorts the choices as well."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from agentrt.engine.models.native.routing import rule_of
from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.ops.experts import Routes
from agentrt_kernels.contract import Kernels


@dataclass(frozen=True, slots=True)
class KernelRouting:
    """Stands for `routing.trained` where experts take their rows sorted: the same routes.

    Of experts whose weights are equal either may come first.

    Attributes:
        kernels: The set.
    """

    kernels: Kernels

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """See `Routing`."""
        found = self.kernels.route(scores, rule_of(shape))
        return Routes(found.chosen, found.shares, found.order)
