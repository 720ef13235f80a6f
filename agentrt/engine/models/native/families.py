"""The architectures that the engine computes itself: for each, a line of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.engine.models.native.shape import Names

_LLAMA_NAMES = Names()


@dataclass(frozen=True, slots=True)
class Family:
    """In what one architecture differs from Llama's.

    Attributes:
        needs: Settings whose defaults depend on the version, so that they must be there.
        qkv_bias: Whether there are biases, or the setting that says so.
        out_bias: The same for attention's output.
        mlp_bias: The same for the gated layer.
        window: Which layers have a sliding window: none, all, all where `use_sliding_window` says
            so, or some by `layer_types`.
        head_norms: See `DecoderShape`.
        experts: Setting of the width of an expert; "" where there are none.
        sums_to_one: As in `ExpertShape`, or the setting that says so.
        rounds: As in `ExpertShape`.
        shared: Setting of the shared expert's width; "" where there is none.
        scales: Granite's multipliers.
        names: Of the weights.
        absent: Settings that must not be set: what they do is not known here.
        theta: `rope_theta` of configs that are older than this setting; 0 where there are none.
    """

    needs: tuple[str, ...] = ()
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    window: Literal["none", "all", "used", "types"] = "none"
    head_norms: Literal["none", "each", "all"] = "none"
    experts: str = ""
    sums_to_one: bool | str = False
    rounds: bool = True
    shared: str = ""
    scales: bool = False
    names: Names = _LLAMA_NAMES
    absent: tuple[str, ...] = ()
    theta: float = 0.0


_MIXTRAL_NAMES = Names(
    router="block_sparse_moe.gate",
    expert="block_sparse_moe.experts.{}.",
    expert_gate_up=("w1", "w3"),
    expert_down="w2",
)
_PHI3_NAMES = Names(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",))
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
        sums_to_one=True,
        rounds=False,
        names=_MIXTRAL_NAMES,
    ),
    "qwen2_moe": Family(
        needs=("norm_topk_prob",),
        qkv_bias=True,
        experts="moe_intermediate_size",
        sums_to_one="norm_topk_prob",
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
        sums_to_one="norm_topk_prob",
    ),
    "olmoe": Family(
        needs=("norm_topk_prob",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        head_norms="all",
        experts="intermediate_size",
        sums_to_one="norm_topk_prob",
        absent=("clip_qkv", "sliding_window"),
    ),
}
