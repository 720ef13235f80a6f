"""Named model shapes of which the bench makes random weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.errors import UsageError

_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
}
_LARGE_PARAMETERS = 100_000_000

_LLAMAS = (
    ModelShape("micro", "llama", 64, 128, 2, 4, 2, 512, tied=True, window_tokens=4096),
    ModelShape("tiny", "llama", 384, 1024, 8, 6, 2, 8192, tied=True),
    ModelShape("half", "llama", 1024, 2816, 24, 16, 4, 32_000, tied=True),
    ModelShape(
        "llama-3.1-8b", "llama", 4096, 14_336, 32, 32, 8, 128_256, tied=False, rope_theta=5e5
    ),
)
_QWENS = (
    ModelShape("micro-qwen2", "qwen2", 64, 128, 2, 4, 2, 512, tied=True, window_tokens=4096),
    ModelShape("qwen2.5-0.5b", "qwen2", 896, 4864, 24, 14, 2, 151_936, tied=True, rope_theta=1e6),
)
_MIXTRALS = (
    ModelShape("micro-mixtral", "mixtral", 64, 96, 2, 4, 2, 512, False, 4, 2, window_tokens=4096),
    ModelShape(
        "mixtral-scaled", "mixtral", 1024, 2816, 12, 16, 4, 32_000, False, 8, 2, rope_theta=1e6
    ),
    ModelShape(
        "mixtral-fine", "mixtral", 1024, 512, 8, 16, 4, 32_000, False, 64, 8, rope_theta=1e6
    ),
)
SHAPES: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (*_LLAMAS, *(replace(one, biases=True) for one in _QWENS), *_MIXTRALS)
}


def shape_named(name: str) -> ModelShape:
    """Look up a named shape.

    Raises:
        UsageError: There is no shape of that name.
    """
    if name not in SHAPES:
        raise UsageError(f"there is no shape {name!r}", hint=f"Use one of {', '.join(SHAPES)}")
    return SHAPES[name]


def is_large(shape: ModelShape) -> bool:
    """True if two cores take so long for the model that less of it is measured."""
    return shape.parameters > _LARGE_PARAMETERS


def config_of(shape: ModelShape, dtype: str) -> dict[str, Any]:
    """The `config.json` of a checkpoint of this shape."""
    config: dict[str, Any] = {
        "architectures": [_ARCHITECTURES[shape.kind]],
        "model_type": shape.kind,
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rms_norm_eps": 1e-5,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": shape.window_tokens,
        "initializer_range": 0.02,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "dtype": dtype,
    }
    if shape.kind == "qwen2":
        config["use_sliding_window"] = False
    if shape.experts > 1:
        config |= {
            "num_local_experts": shape.experts,
            "num_experts_per_tok": shape.experts_a_token,
            "sliding_window": None,
        }
    return config
