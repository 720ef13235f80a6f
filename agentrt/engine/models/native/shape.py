"""Shape of a decoder that the engine computes itself: data, no tensors.

One layer is: query-key-value projection, rotation, attention, gated MLP or experts, with a residual
stream, and norms before a part, behind it, or both. The fields are the differences between
architectures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt_kernels.contract import Activation


@dataclass(frozen=True, slots=True)
class Yarn:
    """Wavelengths that fit the original length often stay; the others grow, with a ramp between.

    Attributes:
        factor: Factor of the longer wavelengths.
        fast: Rotations within the original length from which a wavelength stays.
        slow: Rotations up to which it grows by the whole factor.
        original: Original length, in tokens.
        truncates: Whether the ramp begins and ends at whole numbers.
    """

    factor: float
    fast: float
    slow: float
    original: float
    truncates: bool


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions.

    Attributes:
        theta: Base wavelength.
        width: Number of values of a head that are rotated, from its first.
        factor: Factor by which all wavelengths are longer.
        llama3: Factor, low and high frequency factor and original length of Llama 3.1's scaling, or
            None.
        yarn: Scaling of YaRN, or None.
        factors: Factor of each wavelength, as of longrope; () for none.
        long_factors: The same in sequences of more than `threshold` tokens; () if those of all
            lengths turn alike.
        threshold: Length in tokens; 0 if those of all lengths turn alike.
        amplitude: Factor of cosines and sines.
        interleaved: Whether neighbours rotate together, not values half a width apart.
    """

    theta: float
    width: int
    factor: float = 1.0
    llama3: tuple[float, float, float, float] | None = None
    yarn: Yarn | None = None
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    threshold: int = 0
    amplitude: float = 1.0
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Mixture of experts.

    Attributes:
        count: Experts of a layer.
        experts_per_token: Experts that a token takes.
        inner: Width of an expert.
        normalizes_weights: Whether the weights of a token's experts are divided by their sum.
        rounds_weights: Whether the weights are rounded to the model's dtype.
        shared_inner: Width of the shared expert, weighted by a sigmoid; 0 for none.
        biased: Whether the router and the experts have biases.
        layers: Layers with experts; the others have a gated MLP.
    """

    count: int
    experts_per_token: int
    inner: int
    normalizes_weights: bool
    rounds_weights: bool
    shared_inner: int
    biased: bool
    layers: frozenset[int]


@dataclass(frozen=True, slots=True)
class WeightNames:
    """Names of a layer's parts in a checkpoint.

    Attributes:
        norm: Norm before attention; "" for none, as of the other norms.
        out_norm: Norm of what attention adds to the stream.
        inner_norm: Norm before the MLP.
        inner_out_norm: Norm of what the MLP adds to the stream.
        qkv: Queries, keys, values: one matrix, or three.
        gate_up: Gate and up: one matrix, or two.
        down: Down projection of the MLP.
        router: Scores of the experts.
        expert: Prefix of one expert, with a place for its number; of all if they are stacked.
        expert_gate_up: Gate and up projection of an expert.
        expert_down: Down projection of an expert.
        stacked: Whether a layer has one tensor `[E, W, N]` for a projection of all experts, with
            the columns of gate and up taking turns.
    """

    norm: str = "input_layernorm"
    out_norm: str = ""
    inner_norm: str = "post_attention_layernorm"
    inner_out_norm: str = ""
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    gate_up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: str = "mlp.down_proj"
    router: str = "mlp.gate"
    expert: str = "mlp.experts.{}."
    expert_gate_up: tuple[str, ...] = ("gate_proj", "up_proj")
    expert_down: str = "down_proj"
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A decoder.

    Attributes:
        hidden: Width of the residual stream.
        inner: Width of the gated MLP.
        layers: Number of layers.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        vocabulary: Rows of the embedding.
        positions: Longest context, in tokens.
        epsilon: Epsilon of the norms.
        norm_offset: Added to the weight of every norm.
        centered: Whether norms subtract the mean first, as layer norms do.
        parallel: Whether the MLP takes what attention takes.
        activation: How the gates of MLPs and experts open.
        ropes: Rotary positions of each layer, or None.
        windows: Sliding window of each layer, in tokens; None attends to all.
        scaling: Factor of query times key.
        softcap: Bound of attention's scores, or None.
        sinks: Whether each head has a logit of a place that holds nothing.
        qkv_bias: Whether query, key and value projections have biases.
        out_bias: Whether the output projection of attention has a bias.
        mlp_bias: Whether the gated MLP has biases.
        head_norms: Norms of queries and keys: for each head with the same weight or with weights of
            its own, over all heads, or none.
        experts: Experts instead of gated MLPs, or None.
        tied: Whether the output layer is the embedding.
        embedding_scale: Factor of the embeddings.
        rounds_embedding_scale: Whether that factor is rounded to the model's dtype.
        residual_scale: Factor of what a layer adds to the stream.
        logits_scale: Factor of the logits.
        logits_softcap: Bound of the logits, or None.
        names: Names of the weights.
        is_part: Whether the checkpoint holds other parts, too, such as one that sees images.
        initial_deviation: Standard deviation of random weights.
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
    norm_offset: float
    centered: bool
    parallel: bool
    activation: Activation
    ropes: tuple[Rope | None, ...]
    windows: tuple[int | None, ...]
    scaling: float
    softcap: float | None
    sinks: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: Literal["none", "each", "own", "all"]
    experts: ExpertShape | None
    tied: bool
    embedding_scale: float
    rounds_embedding_scale: bool
    residual_scale: float
    logits_scale: float
    logits_softcap: float | None
    names: WeightNames
    is_part: bool
    initial_deviation: float

    @property
    def query_width(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads."""
        return self.kv_heads * self.head_dim

    @property
    def rope_threshold(self) -> int:
        """Length beyond which a sequence turns by other angles, in all its positions; 0 if none."""
        return max((rope.threshold for rope in self.ropes if rope is not None), default=0)

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.experts is not None and layer in self.experts.layers
