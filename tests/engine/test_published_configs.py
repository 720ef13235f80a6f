"""Configs as published say the same as those that transformers completes and saves."""

import pytest
import transformers

from agentrt.engine.models.native.model_config import shape_of
from agentrt.engine.models.native.shape import DecoderShape

GPT_OSS = {
    **{"model_type": "gpt_oss", "vocab_size": 201_088, "hidden_size": 2880},
    **{"intermediate_size": 2880, "num_hidden_layers": 24, "head_dim": 64},
    **{"num_attention_heads": 64, "num_key_value_heads": 8, "attention_bias": True},
    **{"num_local_experts": 32, "num_experts_per_tok": 4, "swiglu_limit": 7.0},
    **{"hidden_act": "silu", "rms_norm_eps": 1e-5, "sliding_window": 128},
    **{"max_position_embeddings": 131_072, "tie_word_embeddings": False, "rope_theta": 150_000},
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "rope_scaling": {
        **{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0},
        **{"original_max_position_embeddings": 4096, "truncate": False},
    },
}
COMMAND_R_PLUS = {
    **{"model_type": "cohere", "vocab_size": 256_000, "hidden_size": 12_288},
    **{"intermediate_size": 33_792, "num_hidden_layers": 64, "num_attention_heads": 96},
    **{"num_key_value_heads": 8, "attention_bias": False, "hidden_act": "silu"},
    **{"layer_norm_eps": 1e-5, "logit_scale": 0.8333333333333334, "use_qk_norm": True},
    **{"max_position_embeddings": 131_072, "rope_theta": 75_000_000.0},
}
GEMMA_3 = {
    "model_type": "gemma3",
    "text_config": {
        **{"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240},
        **{"num_hidden_layers": 34, "sliding_window": 1024},
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
}


@pytest.mark.parametrize(
    "published", [GPT_OSS, COMMAND_R_PLUS, GEMMA_3], ids=lambda config: config["model_type"]
)
def test_a_published_config_says_what_transformers_makes_of_it(published):
    shape = shape_of(published)
    assert isinstance(shape, DecoderShape), shape
    config_class = transformers.CONFIG_MAPPING[published["model_type"]]
    assert shape == shape_of(config_class(**published).to_dict())
