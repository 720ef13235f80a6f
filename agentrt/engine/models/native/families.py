"""Descriptions of layers by `model_type`, for what a `config.json` does not say of them.

A config gives sizes and settings; where norms sit, whether their weights have an offset, or which
activation a gate has follow from the architecture that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from agentrt.engine.models.native.shape import WeightNames

_LLAMA_NAMES = WeightNames()


@dataclass(frozen=True, slots=True)
class Family:
    """Description of one architecture's layers; the defaults are Llama's.

    Where a field is the name of a setting, "" stands for none.

    Attributes:
        needs: Settings that must be present, since their defaults depend on the version.
        defaults: Settings that a config may leave out.
        absent: Settings that must not be set, since their effect is not implemented.
        names: Names of the weights, which say where norms sit, too.
        epsilon: Setting of the norms' epsilon.
        norm_offset: As in `DecoderShape`.
        centered: As in `DecoderShape`.
        parallel: As in `DecoderShape`.
        activation: Setting of the gates' activation.
        gate_slope: Setting of the gates' slope, as in `Activation`.
        gate_limit: Setting of their limit.
        gate_shift: As in `Activation`.
        gelu_is_tanh: Whether `gelu` stands for its approximation there, as in the first configs.
        head_norms: As in `DecoderShape`.
        uses_head_norms: Whether there are head norms, or the setting that says so.
        qkv_bias: Whether projections have biases, or the setting that says so.
        out_bias: The same for attention's output.
        mlp_bias: The same for the gated MLP.
        sinks: As in `DecoderShape`.
        window: Layers with a sliding window: none, all, all if `use_sliding_window` is set, those
            listed in `layer_types` if it is set, or those listed there in any case.
        window_period: Period of the layers without a window, if `layer_types` does not list them.
        period_setting: Setting of that period.
        scales_rope: Whether rotary positions are scaled by default, so that a config has to give
            their settings.
        interleaved: As in `Rope`.
        local_theta: Setting and default of `rope_theta` in layers with a window, whose ropes are
            not those of the other layers; None if all are alike.
        follows_length: Whether `generate()` computes a sequence anew when it outgrows the threshold
            of its rope; sequences of other families end there.
        rotated: Setting that lists whether each layer has rotary positions; all have without it.
        rotates_windows: Whether only layers with a window have rotary positions.
        query_scalar: Setting of which attention's factor is the inverse root.
        score_factor: Setting of attention's factor.
        score_softcap: Setting of the bound of attention's scores.
        embedding_factor: Setting of the embeddings' factor.
        embedding_root: Whether that factor is the root of their width, rounded.
        residual_factor: Setting of the factor of what a layer adds.
        logits_factor: Setting of the factor of the logits.
        logits_divisor: Setting of their divisor.
        logits_softcap: Setting of their bound.
        experts: Setting of an expert's width.
        normalizes_weights: As in `ExpertShape`, or the setting that says so.
        rounds_weights: As in `ExpertShape`.
        shared: Setting of the shared expert's width.
        biased_experts: As in `ExpertShape`.
    """

    needs: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    names: WeightNames = _LLAMA_NAMES
    epsilon: str = "rms_norm_eps"
    norm_offset: float = 0.0
    centered: bool = False
    parallel: bool = False
    activation: str = "hidden_act"
    gate_slope: str = ""
    gate_limit: str = ""
    gate_shift: float = 0.0
    gelu_is_tanh: bool = False
    head_norms: Literal["none", "each", "own", "all"] = "none"
    uses_head_norms: bool | str = True
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    sinks: bool = False
    window: Literal["none", "all", "used", "used types", "types"] = "none"
    window_period: int = 0
    period_setting: str = ""
    scales_rope: bool = False
    interleaved: bool = False
    local_theta: tuple[str, float] | None = None
    follows_length: bool = False
    rotated: str = ""
    rotates_windows: bool = False
    query_scalar: str = ""
    score_factor: str = ""
    score_softcap: str = ""
    embedding_factor: str = ""
    embedding_root: bool = False
    residual_factor: str = ""
    logits_factor: str = ""
    logits_divisor: str = ""
    logits_softcap: str = ""
    experts: str = ""
    normalizes_weights: bool | str = False
    rounds_weights: bool = True
    shared: str = ""
    biased_experts: bool = False


_MIXTRAL_NAMES = WeightNames(
    router="block_sparse_moe.gate",
    expert="block_sparse_moe.experts.{}.",
    expert_gate_up=("w1", "w3"),
    expert_down="w2",
)
_STACKED_NAMES = WeightNames(
    router="mlp.router", expert="mlp.experts.", expert_gate_up=("gate_up_proj",), stacked=True
)
_PHI3_NAMES = WeightNames(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",))
_SANDWICHED_NAMES = WeightNames(
    out_norm="post_attention_layernorm",
    inner_norm="pre_feedforward_layernorm",
    inner_out_norm="post_feedforward_layernorm",
)
_BEHIND_NAMES = WeightNames(
    norm="",
    out_norm="post_attention_layernorm",
    inner_norm="",
    inner_out_norm="post_feedforward_layernorm",
)
_GLM4_NAMES = WeightNames(
    out_norm="post_self_attn_layernorm",
    inner_out_norm="post_mlp_layernorm",
    gate_up=("mlp.gate_up_proj",),
)
_TIED = {"tie_word_embeddings": True}
_GEMMA_DEFAULTS = {**_TIED, "hidden_activation": "gelu_pytorch_tanh"}
_GEMMA3_DEFAULTS = {
    **_GEMMA_DEFAULTS,
    "final_logit_softcapping": None,
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 131_072,
}
"""The configs of models that see images leave out what is the default."""
_OLMO = Family(
    names=_BEHIND_NAMES,
    head_norms="all",
    qkv_bias="attention_bias",
    out_bias="attention_bias",
)
_GEMMA = Family(
    needs=("head_dim",),
    defaults=_TIED,
    norm_offset=1.0,
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    embedding_root=True,
)
_GEMMA2 = replace(
    _GEMMA,
    needs=("head_dim", "query_pre_attn_scalar"),
    defaults=_GEMMA_DEFAULTS,
    absent=("use_bidirectional_attention",),
    names=_SANDWICHED_NAMES,
    activation="hidden_activation",
    window="types",
    window_period=2,
    query_scalar="query_pre_attn_scalar",
    score_softcap="attn_logit_softcapping",
    logits_softcap="final_logit_softcapping",
)
_COHERE = Family(
    needs=("logit_scale",),
    defaults=_TIED,
    names=WeightNames(inner_norm=""),
    epsilon="layer_norm_eps",
    centered=True,
    parallel=True,
    head_norms="own",
    uses_head_norms="use_qk_norm",
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    interleaved=True,
    logits_factor="logit_scale",
)
_GLM = Family(
    needs=("head_dim", "attention_bias"),
    defaults={"partial_rotary_factor": 0.5},
    names=WeightNames(gate_up=("mlp.gate_up_proj",)),
    qkv_bias="attention_bias",
    interleaved=True,
)

FAMILIES = {
    "llama": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        defaults={"rope_theta": 10_000.0},
    ),
    "mistral": Family(needs=("sliding_window",), window="all"),
    "qwen2": Family(qkv_bias=True, window="used types"),
    "qwen3": Family(
        needs=("head_dim",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        window="used types",
        head_norms="each",
    ),
    "phi3": Family(window="all", names=_PHI3_NAMES, follows_length=True),
    "smollm3": Family(
        needs=("no_rope_layers",),
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        window="used types",
        rotated="no_rope_layers",
    ),
    "seed_oss": Family(
        needs=("head_dim", "attention_out_bias"),
        qkv_bias="attention_bias",
        out_bias="attention_out_bias",
        mlp_bias="mlp_bias",
    ),
    "granite": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp_bias="mlp_bias",
        score_factor="attention_multiplier",
        embedding_factor="embedding_multiplier",
        residual_factor="residual_multiplier",
        logits_divisor="logits_scaling",
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
    "gpt_oss": Family(
        needs=("head_dim", "attention_bias"),
        defaults={"swiglu_alpha": 1.702, "swiglu_limit": 7.0},
        names=_STACKED_NAMES,
        gate_slope="swiglu_alpha",
        gate_limit="swiglu_limit",
        gate_shift=1.0,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        sinks=True,
        window="types",
        window_period=2,
        scales_rope=True,
        experts="intermediate_size",
        normalizes_weights=True,
        biased_experts=True,
    ),
    "gemma": replace(_GEMMA, gelu_is_tanh=True),
    "gemma2": _GEMMA2,
    "gemma3_text": replace(
        _GEMMA2,
        defaults=_GEMMA3_DEFAULTS,
        head_norms="each",
        window_period=6,
        period_setting="sliding_window_pattern",
        local_theta=("rope_local_base_freq", 10_000.0),
        score_softcap="",
    ),
    "olmo2": _OLMO,
    "olmo3": replace(_OLMO, window="types", window_period=4, local_theta=("", 500_000.0)),
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE,
        head_norms="none",
        window="types",
        window_period=4,
        period_setting="sliding_window_pattern",
        rotates_windows=True,
    ),
    "glm": _GLM,
    "glm4": replace(_GLM, names=_GLM4_NAMES),
}
