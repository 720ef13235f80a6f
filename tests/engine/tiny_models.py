"""A tiny random model of any causal language model of transformers, found from its config class."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

FAMILIES = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
VOCABULARY = 262
HEADS, HEAD_DIM, LAYERS, HIDDEN, INNER = 4, 8, 2, 32, 48
POSITIONS = 256

_SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size"), HIDDEN),
    **dict.fromkeys(
        ("word_embed_proj_dim", "emb_dim", "embed_dim", "attention_hidden_size"), HIDDEN
    ),
    **dict.fromkeys(("input_embedding_size", "cross_attention_hidden_size", "dim_model"), HIDDEN),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size"), INNER),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "dim_ff", "d_kv"), INNER),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **dict.fromkeys(("intermediate_size_mlp", "moe_ffn_hidden_size"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "encoder_layers", "num_decoder_layers"), LAYERS),
    **dict.fromkeys(("num_encoder_layers",), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), HEADS),
    **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_kv_heads"), 2),
    **dict.fromkeys(
        ("head_dim", "attention_head_dim", "global_head_dim", "swa_head_dim"), HEAD_DIM
    ),
    **dict.fromkeys(("v_head_dim", "qk_rope_head_dim", "qk_nope_head_dim"), HEAD_DIM),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank"), 16),
    **dict.fromkeys(("rotary_dim",), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "num_shared_experts"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), POSITIONS),
    **dict.fromkeys(("max_sequence_length", "max_seq_len", "seq_length"), POSITIONS),
    **dict.fromkeys(("sliding_window", "attention_chunk_size", "sliding_window_size"), 9),
    **dict.fromkeys(("local_attention", "attention_window", "window_size"), 9),
    "query_pre_attn_scalar": 8,
    "attn_logit_softcapping": 5.0,
    "hidden_size_per_layer_input": 8,
    "first_k_dense_replace": 1,
    "floor_scale": 16,
    "attn_scale": 0.1,
    "num_nextn_predict_layers": 0,
    "laurel_rank": 4,
    "num_kv_shared_layers": 0,
    "state_size": 8,
    "ssm_state_size": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "n_groups": 1,
    "mamba_n_groups": 1,
    "image_size": 16,
    "patch_size": 8,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 0,
    "is_decoder": True,
}
_PER_LAYER = ("layer_types", "mlp_layer_types", "no_rope_layers", "layers_block_type")
_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_OWN: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {
            **{"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": HIDDEN},
        },
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {"activation_sparsity_pattern": [0.0] * LAYERS},
    "gemma4_text": {"per_layer_config": None},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 9},
    "hunyuan_v1_dense": {"rope_parameters": _ROPE, "head_dim": HEAD_DIM},
    "hunyuan_v1_moe": {"rope_parameters": _ROPE, "head_dim": HEAD_DIM, "moe_topk": [2, 2]},
    "laguna": {"num_attention_heads_per_layer": None},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "rope_parameters": _ROPE},
    "ministral": {"rope_parameters": _ROPE, "head_dim": HEAD_DIM},
    "mamba2": {"num_heads": 4, "head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "smollm3": {"no_rope_layers": [1, 0]},
    "xlnet": {"d_head": HEAD_DIM},
}
"""Settings of families whose config needs more than smaller sizes."""


def tiny_config(family: str, **settings: Any) -> Any:
    """The smallest config of a family, with thresholds low enough to be crossed by a test."""
    config_class = transformers.CONFIG_MAPPING[family]
    default = config_class()
    wanted = _shrunk(default.to_dict())
    if wanted.get("kv_lora_rank"):
        wanted |= {"num_key_value_heads": HEADS}  # latents are not shared among heads
    wanted |= {"architectures": None} | _OWN.get(family, {}) | settings
    wanted.pop("transformers_version", None)
    wanted.pop("model_type", None)
    return config_class(**wanted)


def tiny_model(family: str, **settings: Any) -> Any:
    """A random model whose tokens differ clearly in probability."""
    torch.manual_seed(len(family))
    model = transformers.AutoModelForCausalLM.from_config(tiny_config(family, **settings))
    with torch.no_grad():
        for part, weight in model.named_parameters():
            if weight.dim() > 1 and not part.endswith(("norm.weight", "bias")):
                weight.mul_(5)
            elif weight.dim() > 0:  # norms, biases and sinks that are all alike would hide errors
                weight.add_(torch.randn_like(weight) * 0.1)
    return model.eval()


def _shrunk(config: dict[str, Any]) -> dict[str, Any]:
    layers = next(
        (
            config[name]
            for name in _SIZES
            if _SIZES[name] == LAYERS and isinstance(config.get(name), int) and "layers" in name
        ),
        None,
    )
    small: dict[str, Any] = {}
    for name, value in config.items():
        if name in _SIZES and (value is not None or name in ("sliding_window", "pad_token_id")):
            small[name] = _SIZES[name]
        elif isinstance(value, dict) and name.endswith("_config") and value:
            small[name] = _shrunk(value)
        elif name in _PER_LAYER and isinstance(value, list):
            kinds = list(dict.fromkeys(value))
            small[name] = (kinds * LAYERS)[:LAYERS] if layers else value[:LAYERS]
        else:
            small[name] = value
    return small
