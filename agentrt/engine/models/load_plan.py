"""Load plan: everything about a model that is decided before its weights are read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import torch

from agentrt.base.adapter_choice import check_adapters
from agentrt.base.config import EngineConfig
from agentrt.base.eagle3 import check_is_model
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.base.expert_memory import expert_memory
from agentrt.base.expert_routing import expert_routing
from agentrt.base.format_choice import check_formats
from agentrt.base.gguf.checkpoint_files import is_gguf, weight_bytes
from agentrt.engine.models.checkpoint import (
    PLAIN,
    StoredType,
    read_config,
    stored_quantised,
    tensor_shapes,
)
from agentrt.engine.models.compiled.manifest import CompiledModel
from agentrt.engine.models.compiled.opening import with_compiled
from agentrt.engine.models.context_limit import ContextLimit, context_limit
from agentrt.engine.models.native import self_check
from agentrt.engine.models.native.model_config import Declined, shape_of
from agentrt.engine.models.native.routing import Routing
from agentrt.engine.models.native.routing_choice import routing_of
from agentrt.engine.models.native.self_check import SelfCheckResult
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import shape_mismatch
from agentrt.engine.models.quantisation import Quantisation, quantisation_of
from agentrt.engine.ops.kernel_set import ChosenKernels, choose_kernels
from agentrt.engine.ops.linear import LinearBackend
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels.cpu.kernel_set import CpuKernels

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SMALL_BYTES = 200 << 20


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a model will be loaded and computed.

    Attributes:
        config: Config of the engine.
        hf_config: Config of the checkpoint.
        dtype: Type of weights and activations.
        device: Device of the model.
        shape: Shape of the native decoder, or why transformers computes the model.
        kernels: Kernel set for attention, norms and rotations.
        linear_backend: Chooses the format of its matrices.
        quantisation: Formats of its matrices; None leaves them as they are.
        routing: Decides which experts tokens take.
        stored_type: Type in which the checkpoint's matrices are quantised.
        context: Longest context.
        self_check_key: Key under which the self-check of such a checkpoint is stored.
        self_check: Known result of it.
        compiled: The compiled model in that directory, or None.
    """

    config: EngineConfig
    hf_config: dict[str, Any]
    dtype: torch.dtype
    device: torch.device
    shape: DecoderShape | Declined
    kernels: ChosenKernels
    linear_backend: LinearBackend
    quantisation: Quantisation | None
    routing: Routing
    stored_type: StoredType
    context: ContextLimit
    self_check_key: str
    self_check: SelfCheckResult
    compiled: CompiledModel | None = None


def plan_load(config: EngineConfig) -> LoadPlan:
    """Decide how the model of `config.model_path` is loaded.

    Raises:
        ModelInvalid: The directory lacks something, or holds something that is refused.
        EngineUnavailable: The device is missing, or cannot run the configured kernels.
    """
    config, compiled = with_compiled(config)
    check_formats(config)
    check_adapters(config)
    check_is_model(config.model_path)
    hf_config = read_config(config.model_path, weights=not config.random_weights)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailable(
            "device=cuda, but torch sees no CUDA device", hint="Use --device cpu"
        )
    dtype, device = dtype_of(config, hf_config), torch.device(config.device)
    kernels = choose_kernels(config.kernels, config.device, dtype)
    shape = shape_of(hf_config)
    stored_type = PLAIN
    if compiled is not None:
        stored_type = StoredType(compiled.stored_name, compiled.has_steps)
    elif not config.random_weights:
        stored_type = stored_quantised(config.model_path)
    if isinstance(shape, DecoderShape) and not config.random_weights and compiled is None:
        tensor_sizes = tensor_shapes(config.model_path)
        mismatch = shape_mismatch(shape, tensor_sizes)
        if mismatch and (stored_type.name or is_gguf(config.model_path)):
            raise ModelInvalid(
                f"{config.model_path} holds other weights than its metadata says: {mismatch}",
                hint="Serve it elsewhere and pass --engine URL, or convert it again",
            )
        shape = (
            Declined(f"its weights are not plainly those of its config: {mismatch}")
            if mismatch
            else shape
        )
    backend = LinearBackend(dtype, device, kernels.kernels)
    unchecked = SelfCheckResult("unknown", "")
    follows = isinstance(shape, DecoderShape) and shape.rope_threshold > 0
    context = context_limit(hf_config, follows_length=follows)
    if isinstance(shape, DecoderShape) and not context.tokens:  # its config leaves out the default
        context = ContextLimit(shape.positions)
    plan = _checked_plan(
        LoadPlan(
            config=config,
            hf_config=hf_config,
            dtype=dtype,
            device=device,
            shape=shape,
            kernels=kernels,
            linear_backend=backend,
            quantisation=quantisation_of(config),
            routing=routing_of(expert_routing(config.expert_routing)),
            stored_type=stored_type,
            context=context,
            self_check_key="",
            self_check=unchecked,
            compiled=compiled,
        )
    )
    _check_compiled(plan)
    _check_quantisation(plan)
    _check_activations(plan)
    _check_experts(plan)
    return declined_plan(plan) if plan.self_check.state == "failed" else plan


def declined_plan(plan: LoadPlan) -> LoadPlan:
    """The plan of a model whose native decoder failed its self-check: transformers computes it.

    Raises:
        ModelInvalid: The modules of transformers failed theirs on an earlier start.
    """
    reason = plan.self_check.reason
    if isinstance(plan.shape, Declined):
        raise differs(plan)
    context = context_limit(plan.hf_config)
    plan = _checked_plan(dataclasses.replace(plan, shape=Declined(reason), context=context))
    _check_quantisation(plan)
    _check_experts(plan)
    if plan.self_check.state == "failed":
        raise differs(plan)
    return plan


def _check_compiled(plan: LoadPlan) -> None:
    """Refuse packed weights where the native kernels do not compute.

    Raises:
        EngineUnavailable: The kernels are others, or the config is not that of a known decoder.
    """
    if plan.compiled is None:
        return
    kernels, shape = plan.kernels, plan.shape
    fault = None
    if not isinstance(kernels.kernels, CpuKernels):
        fault = f"these are {kernels.kernels.name}: {kernels.reason}"
    elif not isinstance(shape, DecoderShape):
        fault = f"its config.json is that of another model: {shape.reason}"
    if fault is not None:
        raise EngineUnavailable(
            f"{plan.config.model_path} is compiled for the cpu kernels: {fault}",
            hint=f"Use its source, {plan.compiled.source.path}",
        )


def _check_quantisation(plan: LoadPlan) -> None:
    """Refuse quantised weights where nothing multiplies by them.

    Raises:
        EngineUnavailable: The kernels or the model do not.
    """
    if plan.quantisation is None and not plan.stored_type.name:
        return
    fault = None
    if plan.quantisation is not None and plan.stored_type.name:
        fault = f"{plan.config.model_path} is in {plan.stored_type.name} already"
    elif isinstance(plan.shape, Declined):
        fault = f"transformers computes {plan.config.model_path}: {plan.shape.reason}"
    elif isinstance(plan.kernels.kernels, TorchKernels):  # would unpack them for each product
        fault = f"they take the cpu or triton kernels, and these are {plan.kernels.kernels.name}: "
        fault += plan.kernels.reason
    if fault is not None:
        if plan.quantisation is None:
            raise EngineUnavailable(
                f"no weights in {plan.stored_type.name} run here: {fault}",
                hint="Use the model in F16 or bf16, or serve it elsewhere and pass --engine URL",
            )
        raise EngineUnavailable(
            f"no quantised weights (weights={plan.config.weights}) run here: {fault}",
            hint="Leave --weights, or give checkpoint for it",
        )


def _check_activations(plan: LoadPlan) -> None:
    """Refuse rows of eight bits where no matrix multiplies them.

    Raises:
        EngineUnavailable: The matrices are plain, or the kernels do not multiply such rows.
    """
    if plan.config.activations == "auto":
        return
    in_floats = plan.config.activations == "fp8"
    fault = _fault_of_floats(plan) if in_floats else _fault_of_bytes(plan)
    if fault is not None:
        suited = (
            "a checkpoint in FP8" if in_floats else "quantised weights too (weights=int8 or int4)"
        )
        raise EngineUnavailable(
            f"no activations in {plan.config.activations} run here: {fault}",
            hint=f"Give {suited}, or leave --activations",
        )


def _fault_of_bytes(plan: LoadPlan) -> str | None:
    kernels = plan.kernels.kernels
    if plan.quantisation is None and not plan.stored_type.name:
        return f"the matrices of {plan.config.model_path} are not quantised"
    if plan.quantisation is None and not plan.stored_type.has_steps:
        return f"codes of {plan.stored_type.name} are no integers that bytes could multiply"
    if not isinstance(kernels, CpuKernels):
        return f"they take the cpu kernels, and these are {kernels.name}"
    if not kernels.has_byte_products:
        return "the processor has no dot products of bytes (AVX-512 VNNI)"
    return None


def _fault_of_floats(plan: LoadPlan) -> str | None:
    if not plan.stored_type.has_floats:
        return f"the matrices of {plan.config.model_path} are not in FP8"
    if isinstance(plan.kernels.kernels, CpuKernels):
        return "they take the triton kernels of a GPU, and these are the cpu ones"
    return None


def _check_experts(plan: LoadPlan) -> None:
    """Refuse settings of experts where there are none.

    Raises:
        EngineUnavailable: transformers computes the model, or it has no experts.
    """
    config, wanted = plan.config, []
    if config.expert_routing != "trained":
        wanted.append(f"routed by expert_routing={config.expert_routing}")
    if config.expert_load:
        wanted.append("counted by expert_load")
    if expert_memory(config.expert_memory):
        wanted.append(f"kept out of memory by expert_memory={config.expert_memory}")
    if not wanted:
        return
    if isinstance(plan.shape, Declined):
        fault = f"transformers computes {plan.config.model_path}: {plan.shape.reason}"
    elif plan.shape.experts is None:
        fault = f"{plan.config.model_path} has none"
    else:
        return
    raise EngineUnavailable(
        f"no experts are {' and '.join(wanted)} here: {fault}",
        hint="Leave expert_routing, expert_load and expert_memory",
    )


def differs(plan: LoadPlan) -> ModelInvalid:
    """The error of a model that the engine would compute wrongly."""
    return ModelInvalid(
        f"{plan.config.model_path} computes something else in batches and chunks of this engine "
        f"than by itself: {plan.self_check.reason}",
        hint="Serve this model elsewhere and pass --engine URL",
    )


def _checked_plan(plan: LoadPlan) -> LoadPlan:
    """The plan with what is known of its self-check."""
    config, result, key = plan.config, self_check.skipped_check(plan.config), ""
    if plan.compiled is not None:
        state, reason = plan.compiled.check_state, plan.compiled.check_reason
        held: Literal["held", "trusted"] = "held" if state == "held" else "trusted"
        result = self_check.SelfCheckResult(held, f"{reason}, when it was compiled")
    elif plan.stored_type.name:
        result = self_check.SelfCheckResult(
            "trusted", "quantised weights are not unpacked for a comparison"
        )
    if result is None:
        how = f"{plan.dtype} {plan.kernels.kernels.name}"
        if isinstance(plan.shape, Declined):
            how += " transformers"
        key = self_check.fingerprint(plan.hf_config, tensor_shapes(config.model_path), config, how)
        result = self_check.stored_result(config, key)
    return dataclasses.replace(plan, self_check_key=key, self_check=result)


def dtype_name(config: EngineConfig) -> str:
    """Name of the dtype in which an engine of this config computes."""
    return str(dtype_of(config, read_config(config.model_path, weights=False))).removeprefix(
        "torch."
    )


def dtype_of(config: EngineConfig, hf_config: dict[str, Any]) -> torch.dtype:
    """Dtype in which a model computes.

    "auto" takes the checkpoint's dtype, but fp32 for a small one on a CPU: bf16 gains little there,
    and its rounding depends on the batch, so that a seed would not determine the tokens. A CPU has
    no fp16 kernels: a GGUF file in fp16, mostly made from bf16, is computed in bf16 again, and so
    are quantised checkpoints, whose formats often ask for fp16.
    """
    if config.dtype != "auto":
        return _DTYPES[config.dtype]
    is_quantised = is_gguf(config.model_path) or bool(hf_config.get("quantization_config"))
    if config.device == "cpu" and weight_bytes(config.model_path) < _SMALL_BYTES:
        return torch.float32
    name = str(hf_config.get("dtype") or hf_config.get("torch_dtype") or "float32")
    dtype = _DTYPES.get(name.removeprefix("torch."), torch.float32)
    if dtype == torch.float16 and config.device == "cpu" and is_quantised:
        return torch.bfloat16
    return dtype
