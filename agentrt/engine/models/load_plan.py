"""Everything about a model that is decided before its weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.checkpoint import read_config, tensor_shapes
from agentrt.engine.models.native import self_check
from agentrt.engine.models.native.model_config import Declined, shape_of
from agentrt.engine.models.native.self_check import SelfCheckResult
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import difference
from agentrt.engine.ops.kernel_set import ChosenKernels, choose_kernels
from agentrt.engine.ops.linear import LinearBackend

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SMALL_BYTES = 200 << 20


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a model will be computed.

    Attributes:
        config: Of the engine.
        facts: The checkpoint's config.
        dtype: What it computes in.
        device: Where.
        shape: Of the decoder that is computed here, or why transformers computes it.
        kernels: What attention, norms and rotations run on.
        door: Where its matrices go.
        key: Under which the self-check of such a checkpoint is kept.
        verdict: What is known of it; for a model that transformers computes, nothing is asked.
    """

    config: EngineConfig
    facts: dict[str, Any]
    dtype: torch.dtype
    device: torch.device
    shape: DecoderShape | Declined
    kernels: ChosenKernels
    door: LinearBackend
    key: str
    verdict: SelfCheckResult


def plan_load(config: EngineConfig) -> LoadPlan:
    """Decide how the model of `config.model_path` is computed.

    Raises:
        ModelInvalid: The directory lacks something, or holds what we refuse to load.
        EngineUnavailable: The device is not there, or cannot run the kernels asked for.
    """
    facts = read_config(config.model_path, weights=not config.random_weights)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailable(
            "device=cuda, but torch sees no CUDA device", hint="Use --device cpu"
        )
    dtype, device = dtype_of(config, facts), torch.device(config.device)
    kernels = choose_kernels(config.kernels, config.device, dtype)
    shape = shape_of(facts)
    held = {} if config.random_weights else tensor_shapes(config.model_path)
    if isinstance(shape, DecoderShape) and not config.random_weights:
        other = difference(shape, held)
        shape = (
            Declined(f"its weights are not plainly those of its config: {other}")
            if other
            else shape
        )
    key, verdict = "", SelfCheckResult("trusted", "transformers computes it")
    if isinstance(shape, DecoderShape):
        known = self_check.unasked(config)
        if known is None:
            how = f"{dtype} {kernels.kernels.name}"
            key = self_check.fingerprint(facts, held, config, how)
            known = self_check.kept_verdict(config, key)
        verdict = known
        if verdict.state == "failed":
            shape = Declined(verdict.reason)
    door = LinearBackend(dtype, device, kernels.kernels)
    return LoadPlan(config, facts, dtype, device, shape, kernels, door, key, verdict)


def dtype_name(config: EngineConfig) -> str:
    """What an engine of this config computes in, by name."""
    return str(dtype_of(config, read_config(config.model_path, weights=False))).removeprefix(
        "torch."
    )


def dtype_of(config: EngineConfig, facts: dict[str, Any]) -> torch.dtype:
    """What a model computes in.

    "auto" takes what the checkpoint was saved in, but fp32 for a small one on a CPU: bf16 wins
    little there, and its rounding depends on the batch, so a seed would not fix the tokens.
    """
    if config.dtype != "auto":
        return _DTYPES[config.dtype]
    saved_bytes = sum(file.stat().st_size for file in config.model_path.glob("*.safetensors"))
    if config.device == "cpu" and saved_bytes < _SMALL_BYTES:
        return torch.float32
    name = str(facts.get("dtype") or facts.get("torch_dtype") or "float32")
    return _DTYPES.get(name.removeprefix("torch."), torch.float32)
