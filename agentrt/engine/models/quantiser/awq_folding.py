"""Where the scales of AWQ are undone in a layer: its norms, the values, and what gates open for.

The layer computes the same function. Where a stored vector (a norm, a bias) is divided, the scales
are those of its rounded quotient, so that rounding it changes nothing either.

Letters of the shapes: N outputs, W inputs, H query heads, K heads of keys and values, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.quantiser.awq import input_scales
from agentrt.engine.models.quantiser.input_statistics import InputStatistics
from agentrt.engine.models.quantiser.layer_matrices import LayerMatrices
from agentrt.engine.models.quantiser.layer_runner import LayerStatistics
from agentrt.engine.models.quantiser.rounding import RoundingScheme


@dataclass(slots=True)
class AwqLayer:
    """A layer whose matrices are to be scaled.

    Attributes:
        shape: Shape of the decoder.
        prefix: Prefix of the layer's weights.
        matrices: Names of its matrices.
        weights: The layer's weights by name; matrices become fp32, norms and biases keep their
            type.
        statistics: Statistics of the inputs, which are those before scaling.
        schemes: Forms of the modules that are rounded; others must stay as they are.
    """

    shape: DecoderShape
    prefix: str
    matrices: LayerMatrices
    weights: dict[str, Tensor]
    statistics: LayerStatistics
    schemes: dict[str, RoundingScheme]

    def fold(self) -> dict[str, Tensor]:
        """Scale the weights in place.

        Returns:
            The scales of the inputs of each module that takes scaled ones, fp32 `[W]`.
        """
        found: dict[str, Tensor] = {}
        shape, names, parts = self.shape, self.shape.names, self.matrices
        attention, mlp = parts.qkv, parts.gate_up
        if shape.parallel:
            attention, mlp = (*attention, *mlp), ()
        for norm, modules, statistics in (
            (names.norm, attention, self.statistics.qkv),
            (names.inner_norm, mlp, self.statistics.gate_up),
        ):
            if norm and self._are_rounded(modules):
                scales = self._fold_norm(f"{self.prefix}{norm}.weight", modules, statistics)
                found |= dict.fromkeys(modules, scales)
        if self._are_rounded((*parts.qkv, *parts.out)):
            found[parts.out[0]] = self._fold_rows(
                parts.qkv[-1], shape.kv_width, parts.out, self.statistics.out, self._shared
            )
        activation = shape.activation
        divides = activation.shift == 0 and math.isinf(activation.limit)
        if divides and self._are_rounded((*parts.gate_up, *parts.down)):
            found[parts.down[0]] = self._fold_rows(
                parts.gate_up[-1], shape.inner, parts.down, self.statistics.down, lambda one: one
            )
        return found

    def _are_rounded(self, modules: Collection[str]) -> bool:
        return bool(modules) and all(module in self.schemes for module in modules)

    def _fold_norm(
        self, norm: str, modules: tuple[str, ...], statistics: InputStatistics
    ) -> Tensor:
        """Scale what takes a norm's outputs; returns the scales."""
        before, offset = self.weights[norm], self.shape.norm_offset
        scales = self._search(
            modules, statistics, lambda wanted: divided(before, wanted, offset)[1]
        )
        self.weights[norm], scales = divided(before, scales, offset)
        self._multiply(modules, scales)
        return scales

    def _fold_rows(
        self,
        source: str,
        rows: int,
        modules: tuple[str, ...],
        statistics: InputStatistics,
        shared: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Scale what takes the last outputs of a matrix; returns the scales of the inputs.

        Args:
            source: Module that makes the inputs, with its last `rows` outputs.
            rows: Number of those outputs.
            modules: Modules that take the inputs.
            statistics: Statistics of the inputs.
            shared: Scales `[rows]` of the outputs for wanted ones of the inputs.
        """
        bias = self.weights.get(f"{source}.bias")
        repeats = statistics.mean_size.shape[0] // rows

        def outputs(wanted: Tensor) -> Tensor:
            scales = shared(wanted)
            return scales if bias is None else divided(bias[-rows:], scales, 0.0)[1]

        def inputs(scales: Tensor) -> Tensor:
            heads = scales.view(-1, self.shape.head_dim) if repeats > 1 else scales
            return heads.repeat_interleave(repeats, 0).flatten() if repeats > 1 else scales

        wanted = self._search(modules, statistics, lambda one: inputs(outputs(one)))
        scales = outputs(wanted)
        if bias is not None:
            kept, quotient = bias[:-rows], divided(bias[-rows:], scales, 0.0)[0]
            self.weights[f"{source}.bias"] = torch.cat((kept, quotient))
        weight = self.weights[f"{source}.weight"].float().clone()
        weight[-rows:] /= scales[:, None]
        self.weights[f"{source}.weight"] = weight
        self._multiply(modules, inputs(scales))
        return inputs(scales)

    def _search(
        self,
        modules: tuple[str, ...],
        statistics: InputStatistics,
        tied: Callable[[Tensor], Tensor],
    ) -> Tensor:
        weight = torch.cat([self.weights[f"{module}.weight"].float() for module in modules])
        return input_scales(weight, statistics, self.schemes[modules[0]], tied)

    def _multiply(self, modules: tuple[str, ...], scales: Tensor) -> None:
        for module in modules:
            name = f"{module}.weight"
            self.weights[name] = self.weights[name].float() * scales

    def _shared(self, wanted: Tensor) -> Tensor:
        """Scales `[K * D]` of the values, for wanted ones `[H * D]` of attention's outputs.

        Heads that share values share their scales: the geometric mean of what each wants.
        """
        shape = self.shape
        heads = wanted.view(shape.kv_heads, -1, shape.head_dim)
        return heads.log().mean(1).exp().flatten()


def divided(vector: Tensor, scales: Tensor, offset: float) -> tuple[Tensor, Tensor]:
    """A stored vector divided by about these scales, and the exact ones of the rounded quotient.

    Example:
        >>> vector = torch.tensor([3.0, 0.0], dtype=torch.bfloat16)
        >>> divided(vector, torch.tensor([7.0, 2.0]), 0.0)[1]
        tensor([7.0137, 1.0000])

    Args:
        vector: `[W]`, in its stored type.
        scales: fp32 `[W]`, positive.
        offset: Added to the vector where it is used.

    Returns:
        The quotient in the vector's type, and scales fp32 `[W]`; 1 where it cannot be divided.
    """
    whole = vector.float() + offset
    quotient = (whole / scales - offset).to(vector.dtype)
    exact = whole / (quotient.float() + offset)
    holds = exact.isfinite() & (exact > 0)
    return torch.where(holds, quotient, vector), torch.where(holds, exact, 1.0)
