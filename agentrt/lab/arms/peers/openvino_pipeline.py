"""The pipeline of OpenVINO GenAI, opened alike for the engine alone and under a server."""

from __future__ import annotations

from typing import Any

import openvino_genai as genai

_BLOCK_TOKENS = 32
_MOST_REQUESTS = 256
_STEP_TOKENS = 2048
_PRECISIONS = {"bfloat16": "bf16", "float32": "f32"}


def open_pipeline(
    model: str, *, dtype: str, threads: int, kv_tokens: int, prompts_alone: bool, lookup: bool
) -> Any:
    """Load a model for continuous batching with prefix caching.

    Args:
        model: The model's GGUF file, or the folder of its compressed form.
        dtype: Dtype of the computation and of keys and values, `bfloat16` or `float32`.
        threads: Threads.
        kv_tokens: Tokens that fit into the KV memory.
        prompts_alone: True for steps of prompts or of outputs, False for steps of both.
        lookup: True to take drafts from the prompt.
    """
    config = genai.SchedulerConfig()
    config.num_kv_blocks = kv_tokens // _BLOCK_TOKENS
    config.max_num_batched_tokens = max(_STEP_TOKENS, kv_tokens if prompts_alone else 0)
    config.max_num_seqs = _MOST_REQUESTS
    config.enable_prefix_caching = True
    config.dynamic_split_fuse = not prompts_alone
    properties: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": _PRECISIONS[dtype],
        "KV_CACHE_PRECISION": _PRECISIONS[dtype],
        "INFERENCE_NUM_THREADS": threads,
    }
    if lookup:
        properties["prompt_lookup"] = True
    return genai.ContinuousBatchingPipeline(model, config, "CPU", properties)


def unread_tokens(handle: Any) -> list[int]:
    """Tokens of a request that were not read yet."""
    new: list[int] = []
    while handle.can_read():
        for output in handle.read().values():
            new += output.generated_ids
    return new
