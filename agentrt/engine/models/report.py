"""Report on how a model runs on this machine, and why, without reading its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from agentrt.base.config import EngineConfig
from agentrt.base.errors import AgentrtError
from agentrt.base.expert_memory import expert_memory
from agentrt.base.gguf.checkpoint_files import weight_bytes as saved_bytes
from agentrt.engine.models.kv_layout import kv_layout
from agentrt.engine.models.load_plan import LoadPlan, plan_load
from agentrt.engine.models.native.model_config import Declined
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import expert_bytes, weight_bytes


class KvReport(TypedDict):
    """The part of a report about the KV cache; see `ModelReport`."""

    kv_cache: str
    kv_token_bytes: float
    kv_tokens_gained: float


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Plain values, for display and for JSON.

    Attributes:
        architecture: Architecture that the checkpoint names.
        path: "fast" if the engine computes the decoder itself, "slow" if transformers does,
            "unsupported" if it cannot be loaded.
        path_reason: Why.
        kernels: Kernel set for attention, norms and rotations.
        kernels_reason: Why.
        linear: Format of the matrices: "native", "packed", "plain", "int8" or "int4" if they stay
            quantised, or the one of transformers.
        linear_reason: Why.
        dtype: Type of weights and activations.
        weight_bytes: Bytes of all weights as they are kept; 0 if transformers computes it.
        expert_bytes: Bytes of all routed experts as they are kept, part of the weights; 0 if the
            model has none, or if the checkpoint's matrices stay as they are.
        expert_memory_bytes: Most bytes of experts in fast memory; 0 if all are.
        kv_cache: Type of cached keys and values: "int8", or the dtype.
        kv_token_bytes: Bytes of a token's keys and values in all layers, scales included; 0 if
            transformers computes it.
        kv_tokens_gained: Tokens in the memory of one whose values are kept as computed.
        device: Device of the model.
        context_tokens: Longest context; 0 if its config does not say.
        context_reason: Why that is shorter than its config says; "" if it is not.
        self_check: Known result of comparing its logits with those of transformers.
        compiled: Where a compiled model comes from, and what for; "" if it is none.
    """

    architecture: str
    path: Literal["fast", "slow", "unsupported"]
    path_reason: str
    kernels: str = ""
    kernels_reason: str = ""
    linear: str = ""
    linear_reason: str = ""
    dtype: str = ""
    weight_bytes: int = 0
    expert_bytes: int = 0
    expert_memory_bytes: int = 0
    kv_cache: str = ""
    kv_token_bytes: float = 0.0
    kv_tokens_gained: float = 1.0
    device: str = ""
    context_tokens: int = 0
    context_reason: str = ""
    self_check: str = ""
    compiled: str = ""

    @property
    def computed_by(self) -> str:
        """Everything that a step's time depends on, beside the model and the machine."""
        coded = "" if self.kv_cache == self.dtype else f" {self.kv_cache} KV"
        return f"{self.path} {self.kernels} {self.linear} {self.dtype}{coded}"

    def __str__(self) -> str:
        parts = [f"{self.architecture} on the {self.path} path ({self.path_reason})"]
        parts.append(f"kernels {self.kernels} ({self.kernels_reason})")
        parts.append(f"{self.linear} weights in {self.dtype} on {self.device}")
        if self.expert_memory_bytes:
            parts.append(f"experts in {self.expert_memory_bytes:,} bytes of memory")
        if self.kv_cache != self.dtype:
            parts.append(f"KV in {self.kv_cache}")
        if self.context_reason:
            parts.append(f"contexts of {self.context_tokens} tokens ({self.context_reason})")
        return ", ".join(parts)


def report_of(plan: LoadPlan) -> ModelReport:
    """Report on a model that is about to be loaded."""
    declined = isinstance(plan.shape, Declined)
    quantisation = plan.quantisation
    linear: str = plan.linear_backend.choice
    linear_reason = plan.linear_backend.reason
    if quantisation is not None:
        linear, linear_reason = f"int{quantisation.bits}", str(quantisation)
    elif plan.stored_type.name:
        linear, linear_reason = plan.stored_type.name, "the checkpoint's matrices stay as they are"
    if plan.compiled is not None:
        linear_reason = f"memory-mapped as they were packed: {linear_reason}"
    if plan.config.activations != "auto":
        linear += f" by {plan.config.activations}"
    return ModelReport(
        architecture=str(plan.hf_config.get("model_type")),
        path="slow" if declined else "fast",
        path_reason=plan.shape.reason
        if isinstance(plan.shape, Declined)
        else "its config and its weights are plainly of a known shape",
        kernels=plan.kernels.kernels.name,
        kernels_reason=plan.kernels.reason,
        linear="transformers'" if declined else linear,
        linear_reason="" if declined else linear_reason,
        dtype=str(plan.dtype).removeprefix("torch."),
        weight_bytes=_weight_bytes(plan),
        expert_bytes=_expert_bytes(plan),
        expert_memory_bytes=expert_memory(plan.config.expert_memory),
        **_kv_of(plan),
        device=plan.device.type,
        context_tokens=plan.context.tokens,
        context_reason=plan.context.reason,
        self_check=f"{plan.self_check.state}: {plan.self_check.reason}",
        compiled="" if plan.compiled is None else str(plan.compiled),
    )


def _kv_of(plan: LoadPlan) -> KvReport:
    """The memory that a token's keys and values take."""
    sizes = plan.shape
    kind: str = plan.config.kv_cache_dtype
    if kind == "auto":
        kind = str(plan.dtype).removeprefix("torch.")
    if isinstance(sizes, Declined):
        return KvReport(kv_cache=kind, kv_token_bytes=0.0, kv_tokens_gained=1.0)
    kept, computed = kv_layout(plan, sizes), kv_layout(plan, sizes, as_computed=True)
    return KvReport(
        kv_cache=kind,
        kv_token_bytes=kept.page_bytes / kept.page_tokens,
        kv_tokens_gained=computed.page_bytes / kept.page_bytes,
    )


def _weight_bytes(plan: LoadPlan) -> int:
    if not isinstance(plan.shape, DecoderShape):
        return 0
    if plan.stored_type.name or plan.compiled is not None:
        return saved_bytes(plan.config.model_path)
    return weight_bytes(plan.shape, plan.dtype.itemsize, plan.quantisation)


def _expert_bytes(plan: LoadPlan) -> int:
    if not isinstance(plan.shape, DecoderShape) or plan.stored_type.name:
        return 0
    return expert_bytes(plan.shape, plan.dtype.itemsize, plan.quantisation)


def model_report(config: EngineConfig) -> ModelReport:
    """Report on the checkpoint in `config.model_path`; refusals are reported, not raised."""
    try:
        return report_of(plan_load(config))
    except AgentrtError as error:
        return ModelReport("unknown", "unsupported", error.message)
