"""Counters of the tokens that each expert takes, kept on the device, for several groups of rows.

Letters of the shapes: L layers with experts, G groups, T tokens, A experts per token, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.routing import Routing
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape
from agentrt.engine.ops.experts import Routes


class ExpertLoad:
    """Counts choices by layer, group and expert.

    Args:
        shape: Shape of a decoder with experts.
        groups: G.
        device: Device of the decoder.

    Example:
        `load.counted(layer, routing, groups)` routes as `routing` does, and counts.
    """

    def __init__(self, shape: DecoderShape, groups: int, device: torch.device) -> None:
        assert shape.experts is not None, "a decoder without experts has no load of them"
        layers = sorted(shape.experts.layers)
        self._place = {layer: at for at, layer in enumerate(layers)}
        size = (len(layers), groups, shape.experts.count + 1)  # the last are choices of none
        self._counts = torch.zeros(size, dtype=torch.int64, device=device)

    def counted(self, layer: int, routing: Routing, groups: Tensor) -> Routing:
        """A routing that counts the choices of rows whose groups are `groups` `[T]` int64."""
        return CountedRouting(routing, self._counts[self._place[layer]], groups)

    def take(self, group: int) -> tuple[tuple[int, ...], ...]:
        """Counts of a group by layer and expert since they were last taken."""
        own = self._counts[:, group]
        found = own[:, :-1].tolist()
        own.zero_()
        return tuple(tuple(layer) for layer in found)


@dataclass(frozen=True, slots=True)
class CountedRouting:
    """A routing whose choices are counted.

    Attributes:
        routing: Decides which experts tokens take.
        counts: `[G, E + 1]` int64, to which they are added.
        groups: `[T]` int64, the group of each row.
    """

    routing: Routing
    counts: Tensor
    groups: Tensor

    def __call__(self, scores: Tensor, shape: ExpertShape) -> Routes:
        """See `Routing`."""
        routes = self.routing(scores, shape)
        places = self.groups[:, None] * self.counts.shape[1] + routes.chosen
        self.counts.view(-1).scatter_add_(0, places.view(-1), torch.ones_like(places).view(-1))
        return routes
