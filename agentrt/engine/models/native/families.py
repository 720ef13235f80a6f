"""Architectures that the engine computes itself, each as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.engine.models.native.shape import WeightNames

_LLAMA_NAMES = WeightNames()


@dataclass(frozen=True, slots=True)
class Family:
    """Differences of one architecture from Llama's.

    Attributes:
        needs: Settings that must be present, since their defaults depend on the version.
        qkv_bias: Whether projections have biases, or the setting that says so.
        out_bias: The same for attention's output.
        mlp_bias: The same for the gated MLP.
        window: Layers with a sliding window: none, all, all if `use_sliding_window` is set, or
            those listed in `layer_types`.
        head_norms: See `DecoderShape`.
        experts: Setting of an expert's width; "" if there are none.
        normalizes_weights: As in `ExpertShape`, or the setting that says so.
        rounds_weights: As in `ExpertShape`.
        shared: Setting of the shared expert's width; "" if there is none.
        rotated: Setting that lists whether each layer has rotary positions; "" if all have.
        scales: Whether it has Granite's multipliers.
        names: Names of the weights.
        absent: Settings that must not be set, since their effect is not implemented.
        theta: `rope_theta` of configs older than this setting; 0 if there are none.
    """

    needs: tuple[str, ...] = ()
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    window: Literal["none", "all", "used", "types"] = "none"
    head_norms: Literal["none", "each", "all"] = "none"
    experts: str = ""
    normalizes_weights: bool | str = False
    rounds_weights: bool = True
    shared: str = ""
    rotated: str = ""
    scales: bool = False
    names: WeightNames = _LLAMA_NAMES
    absent: tuple[str, ...] = ()
    theta: float = 0.0


_MIXTRAL_NAMES = WeightNames(
    router="block_sparse_moe.gate",
    expert="block_sparse_moe.experts.{}.",
    expert_gate_up=("w1", "w3"),
    expert_down="w2",
)
_PHI3_NAMES = WeightNames(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",))
_GRANITE = (
    "embedding_multiplier",
    "residual_multiplier",
    "attention_multiplier",
    "logits_scaling",
)

FAMILIES = {
    "llama": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        theta=10_000.0,
    ),
    "mistral": Family(needs=("sliding_window",), window="all"),
    "qwen2": Family(qkv_bias=True, window="types"),
    "qwen3": Family(
        needs=("head_dim",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        window="types",
        head_norms="each",
    ),
    "phi3": Family(window="all", names=_PHI3_NAMES),
    "smollm3": Family(
        needs=("no_rope_layers",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        window="types",
        rotated="no_rope_layers",
    ),
    "seed_oss": Family(
        needs=("head_dim", "attention_out_bias"),
        qkv_bias="attention_bias",
        out_bias="attention_out_bias",
        mlp_bias="mlp_bias",
    ),
    "granite": Family(
        needs=_GRANITE,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        scales=True,
    ),
    "mixtral": Family(
        window="all",
        experts="intermediate_size",
        normalizes_weights=True,
        rounds_weights=False,
        names=_MIXTRAL_NAMES,
    ),
    "qwen2_moe": Family(
        needs=("norm_topk_prob",),
        qkv_bias=True,
        experts="moe_intermediate_size",
        normalizes_weights="norm_topk_prob",
        shared="shared_expert_intermediate_size",
        absent=("use_sliding_window",),
    ),
    "qwen3_moe": Family(
        needs=("head_dim", "norm_topk_prob"),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        window="used",
        head_norms="each",
        experts="moe_intermediate_size",
        normalizes_weights="norm_topk_prob",
    ),
    "olmoe": Family(
        needs=("norm_topk_prob",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        head_norms="all",
        experts="intermediate_size",
        normalizes_weights="norm_topk_prob",
        absent=("clip_qkv", "sliding_window"),
    ),
}
