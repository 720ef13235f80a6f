"""What a decoder looks like that the engine computes itself: data, no tensors.

One layer is: norm, queries-keys-values, rotation, attention, norm, gated layer or experts, with a
residual stream. The fields say in what the architectures differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions.

    Attributes:
        theta: Base wavelength.
        width: How many values of a head turn, from its first.
        stretch: All wavelengths are this much longer.
        llama3: Factor, low and high frequency factor and original length of Llama 3.1's stretch,
            or None.
    """

    theta: float
    width: int
    stretch: float = 1.0
    llama3: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Gated layers of which each token takes a few.

    Attributes:
        count: Experts of a layer.
        chosen: How many a token takes.
        inner: Width of one.
        sums_to_one: The weights of the chosen are divided by their sum.
        rounds: The weights are rounded to the dtype of the model.
        shared_inner: Width of one more that every token takes, weighed by a sigmoid; 0 for none.
        layers: Which layers have experts; the others have a plain gated layer.
    """

    count: int
    chosen: int
    inner: int
    sums_to_one: bool
    rounds: bool
    shared_inner: int
    layers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Names:
    """How a checkpoint calls the parts of a layer.

    Attributes:
        qkv: Queries, keys, values: one matrix, or three.
        gate_up: Gate and up: one matrix, or two.
        down: Back to the residual stream.
        router: Scores of the experts.
        expert: Of one expert, with its number to be put in.
        expert_gate_up: Gate and up of it.
        expert_down: And its way back.
    """

    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    gate_up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: str = "mlp.down_proj"
    router: str = "mlp.gate"
    expert: str = "mlp.experts.{}."
    expert_gate_up: tuple[str, ...] = ("gate_proj", "up_proj")
    expert_down: str = "down_proj"


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A decoder.

    Attributes:
        hidden: Width of the residual stream.
        inner: Width of the gated layer.
        layers: How many.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        vocabulary: Rows of the embedding.
        positions: Longest context.
        epsilon: Of the norms.
        rope: Positions.
        windows: For each layer, how many tokens a token sees; None sees all.
        scaling: Of query times key.
        qkv_bias: Queries, keys and values have biases.
        out_bias: So has what attention gives.
        mlp_bias: So has the gated layer.
        head_norms: Queries and keys are normed head by head, over all heads, or not.
        experts: In place of gated layers, or None.
        tied: The output layer is the embedding.
        embedding_scale: Embeddings are multiplied by it.
        residual_scale: So is what a layer adds to the stream.
        logits_scale: And the logits.
        names: Of the weights.
        initial_deviation: Of random weights.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    positions: int
    epsilon: float
    rope: Rope
    windows: tuple[int | None, ...]
    scaling: float
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: Literal["none", "each", "all"]
    experts: ExpertShape | None
    tied: bool
    embedding_scale: float
    residual_scale: float
    logits_scale: float
    names: Names
    initial_deviation: float

    @property
    def query_width(self) -> int:
        """Of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Of all heads of keys."""
        return self.kv_heads * self.head_dim

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.experts is not None and layer in self.experts.layers
