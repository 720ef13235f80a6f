"""Each architecture: which path it takes, and that its greedy output equals `generate()`."""

import random

import pytest

from agentrt.base.config import EngineConfig
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.report import model_report
from tests.engine.transformers_said import EPSILON, said

NEW_TOKENS = 8
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
WINDOWS = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
TYPES = {"layer_types": ["sliding_attention", "full_attention"]}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}

TEXT = {
    **{"vocab_size": 262, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8, "sliding_window": 7},
    **{"query_pre_attn_scalar": 8, "max_position_embeddings": 256, **TYPES},
}
VISION = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "image_size": 16, "patch_size": 8},
}

FAST = [
    ("llama", {}),
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    ),
    ("qwen2", {}),
    ("qwen2", WINDOWS),
    ("qwen3", {}),
    ("qwen3", {**WINDOWS, "layer_types": ["sliding_attention", "full_attention"]}),
    ("mistral", {}),
    ("mixtral", {}),
    ("qwen3_moe", {"norm_topk_prob": True}),
    ("qwen3_moe", {**WINDOWS, "mlp_only_layers": [0]}),
    ("qwen2_moe", {**MOE, "shared_expert_intermediate_size": 40}),
    ("phi3", {"sliding_window": 7}),
    (
        "phi3",
        {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
            }
        },
    ),
    (
        "granite",
        {
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.25,
            "attention_multiplier": 0.3,
            "logits_scaling": 3.0,
            "rms_norm_eps": 0.5,  # so large that the scaled stream needs its own
        },
    ),
    ("olmoe", {}),
    ("gemma", {}),
    ("gemma2", {}),
    ("gemma2", {"query_pre_attn_scalar": 20, "attn_logit_softcapping": None}),
    ("gemma3_text", {"sliding_window": 7, "final_logit_softcapping": 2.0}),
    ("olmo2", {}),
    ("olmo2", {"tie_word_embeddings": True, "rope_parameters": YARN}),
    ("olmo3", {**TYPES, "sliding_window": 6}),
    ("cohere", {"logit_scale": 0.3}),
    ("cohere", {"use_qk_norm": True}),
    ("cohere2", {**TYPES, "sliding_window": 6}),
    ("glm", {}),
    ("glm4", {"attention_bias": True}),
    ("smollm3", {"no_rope_layers": [1, 0]}),
    ("gpt_oss", {}),
    ("gpt_oss", {"rope_parameters": {**YARN, "truncate": False}, "swiglu_limit": 0.4}),
    ("gpt_oss", {"layer_types": TYPES["layer_types"][::-1], "swiglu_alpha": 0.6}),
    ("gemma3", {"text_config": TEXT, "vision_config": VISION, "mm_tokens_per_image": 4}),
]
SLOW = [
    ("gpt_oss", {"hidden_act": "gelu"}),  # which its gates do not look at
    ("llama", {"hidden_act": "gelu"}),
]


def prompts():
    """Three that begin alike, longer than a chunk and than any window."""
    rng = random.Random(3)
    stem = [rng.randrange(256) for _ in range(22)]
    return [stem[:cut] + [rng.randrange(256) for _ in range(6)] for cut in (22, 17, 9)]


def expected(path, prompt):
    """What `generate()` says up to the end token, and the gap of the two best logits at each."""
    tokens, gaps = said(path, prompt, NEW_TOKENS)
    tokens = tokens[: tokens.index(257)] if 257 in tokens else tokens
    return tokens, gaps


def served(core, engine):
    """Two at once, then one that finds their prefix."""
    for number, prompt in enumerate(prompts()[:2]):
        core.submit(engine.request(number, prompt, max_tokens=NEW_TOKENS))
    seen = engine.drain(core)
    core.submit(engine.request(2, prompts()[2], max_tokens=NEW_TOKENS))
    engine.drain(core, seen)
    core.close()
    assert seen.ends[2].ledger.cached_tokens >= 8
    return [seen.ids(number) for number in range(3)]


def agree(mine, theirs, gaps):
    """Token for token, up to a tie."""
    for at, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one != other:
            assert gaps[at] < EPSILON, f"token {at}: {mine} is not {theirs}"
            return
    assert len(mine) == len(theirs)


def name(case):
    kind, settings = case
    return "-".join((kind, *settings))


@pytest.mark.parametrize(
    ("path", "case"),
    [*(("fast", case) for case in FAST), *(("slow", case) for case in SLOW)],
    ids=[name(case) for case in (*FAST, *SLOW)],
)
def test_greedy_output_equals_generate(path, case, engine, tmp_path):
    kind, settings = case
    engine.save_model(kind, tmp_path, **settings)
    core = engine.core(tmp_path, page_tokens=4, prefill_chunk_tokens=9)
    assert core.executor.runner.model.report.path == path, (
        core.executor.runner.model.report.path_reason
    )
    assert core.executor.runner.model.report == model_report(
        EngineConfig(tmp_path, threads=1, page_tokens=4)
    )
    for mine, prompt in zip(served(core, engine), prompts(), strict=True):
        agree(mine, *expected(tmp_path, prompt))


OWN_FORM = FAST[4:17]
"""Cases whose layers are Llama's but for one thing or two."""
OTHER_FORM = FAST[17:]
"""Cases with norms, gates, rotations or bounds of their own."""
ODD = [("llama", {"intermediate_size": 47}), ("gemma", {"hidden_size": 33, "head_dim": 8})]
"""Cases of odd widths, whose matrices in bf16 the native call does not take."""
SETS = [
    *((kernels, case) for kernels in ("torch", "reference") for case in FAST[:1] + OWN_FORM),
    *(("torch", case) for case in OTHER_FORM),
    *(pytest.param("reference", case, marks=pytest.mark.slow) for case in OTHER_FORM),
    *(("cpu", case) for case in (*FAST[:2], *ODD)),
    *(pytest.param("cpu", case, marks=pytest.mark.slow) for case in OTHER_FORM),
]


@pytest.mark.parametrize(
    ("kernels", "case"), SETS, ids=lambda part: part if isinstance(part, str) else name(part)
)
def test_every_set_of_kernels_gives_the_logits_of_transformers(kernels, case, engine, tmp_path):
    """In both precisions, by the check that a start makes."""
    kind, settings = case
    engine.save_model(kind, tmp_path, **settings)
    for dtype in ("float32", "bfloat16"):
        config = EngineConfig(tmp_path, kernels=kernels, dtype=dtype, self_check="always")
        report = load_model(config).report
        assert report.path == "fast", report.path_reason
        assert report.kernels == kernels
