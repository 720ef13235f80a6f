"""Model loader for Hugging Face checkpoint directories.

Decoders of a known shape are computed by the engine itself, all others through transformers. Any
code or pickle in a checkpoint is refused before a loader could run it.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.base.expert_memory import expert_memory
from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.models.compiled.layer_files import read_layers
from agentrt.engine.models.compiled.manifest import CompiledModel
from agentrt.engine.models.compiled.stack_files import read_stack
from agentrt.engine.models.compiled.weight_files import WeightReader
from agentrt.engine.models.kv_layout import kv_layout
from agentrt.engine.models.load_plan import LoadPlan, declined_plan, differs, plan_load
from agentrt.engine.models.lora.adapter import read_adapter
from agentrt.engine.models.native import self_check
from agentrt.engine.models.native.build import (
    EngineNetwork,
    build_network,
    random_weights,
    read_weights,
    with_rows_of_bytes,
)
from agentrt.engine.models.native.families import FAMILIES
from agentrt.engine.models.native.model_config import Declined
from agentrt.engine.models.native.self_check import SelfCheckResult
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_network import StackNetwork
from agentrt.engine.models.native.stack_weights import fits_stack
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.report import ModelReport, report_of
from agentrt.engine.ops.expert_offload import ExpertOffload
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels.contract import Kernels
from agentrt_kernels.cpu.kernel_set import CpuKernels

_log = logging.getLogger(__name__)


class Network(Protocol):
    """Computes logits.

    Attributes:
        parameters: Number of parameters.
        is_single_call: Whether a forward is one native call, attention included, without torch.
        quantised_bytes: Bytes of the matrices that stay quantised.
        layer_sizes: Layers, and the width of their outputs; zeros if they are not exposed.
        layer_outputs: Filled by each forward with the residual stream behind each layer, for the
            rows with logits: fp32 `[layers, rows, width]`; None for none.
    """

    parameters: int
    is_single_call: bool
    quantised_bytes: int
    layer_sizes: tuple[int, int]
    layer_outputs: Tensor | None

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the batch's `logit_rows`."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that attends through the engine.

    Attributes:
        network: Computes logits.
        heads: Query heads.
        layout: Shape of its KV.
        window_tokens: Longest context it was made for; 0 if its config does not say.
        rope_threshold: Length beyond which a sequence has other angles in all its positions, so
            that its KV is computed anew; 0 if there is none.
        logits_size: Width of its logits.
        activation_values: Values of the widest layer's inputs and outputs for one token, estimated.
        name: Name of its directory, for display.
        parameters: Number of parameters.
        kernels: Kernel set on which it runs.
        shape: Shape of the decoder if the engine computes it itself, else None.
        report: Path that computes it, and why.
        state_bytes: Bytes of what is kept of a token beside its KV: the states that a head takes.
        compiled: The compiled model that it comes from, or None.
    """

    network: Network
    heads: int
    layout: KvLayout
    window_tokens: int
    rope_threshold: int
    logits_size: int
    activation_values: int
    name: str
    parameters: int
    kernels: Kernels
    shape: DecoderShape | None
    report: ModelReport
    compiled: CompiledModel | None = None
    state_bytes: int = 0

    @property
    def page_bytes(self) -> int:
        """Bytes of a page of its KV, and of what is kept beside it."""
        return self.layout.page_bytes + self.layout.page_tokens * self.state_bytes


def load_model(config: EngineConfig) -> LoadedModel:
    """Load the model of `config.model_path`.

    Raises:
        ModelInvalid: The directory lacks something, or holds something that is refused.
        EngineUnavailable: The device is missing, or cannot run the configured kernels.
    """
    plan = plan_load(config)
    shape = plan.shape
    if isinstance(shape, DecoderShape):
        network, check = _load_native(plan, shape)
        plan = dataclasses.replace(plan, self_check=check)
        if check.state != "failed":
            if isinstance(network, TorchNetwork):  # what is compared routes as it was trained
                network.routing = plan.routing
            if config.adapters:
                network.attach(
                    [read_adapter(one, shape, plan.dtype) for one in plan.config.adapters]
                )
            return _loaded_model(plan, network, shape)
        del network
        plan = declined_plan(plan)
    assert isinstance(plan.shape, Declined)
    if config.adapters:
        raise ModelInvalid(
            f"{config.model_path} goes through transformers, which adapters are not loaded into: "
            f"{plan.shape.reason}",
            hint="Merge the adapter into its base: `model.merge_and_unload()` of PEFT",
        )
    level = logging.WARNING if plan.hf_config.get("model_type") in FAMILIES else logging.INFO
    _log.log(level, "%s goes through transformers: %s", config.model_path, plan.shape.reason)
    return _load_transformers(plan)


def _load_native(plan: LoadPlan, shape: DecoderShape) -> tuple[EngineNetwork, SelfCheckResult]:
    """The engine's own network, and whether it computes what transformers computes.

    What is compared has the checkpoint's own weights: rounded ones differ by more than an error.
    """
    if plan.self_check.state != "unknown":
        return _native_network(plan, shape), plan.self_check
    config, dtype, device = plan.config, plan.dtype, plan.device
    reference = self_check.reference_logits(config.model_path, dtype, device)
    plain = dataclasses.replace(plan, quantisation=None)
    network = _native_network(plain, shape)
    layout = kv_layout(plan, shape, as_computed=True)
    logits = self_check.network_logits(network, layout, shape.heads, shape.vocabulary)
    check = self_check.compare_logits(logits, reference, dtype)
    self_check.store_result(plan.self_check_key, check)
    if plan.quantisation is None or check.state == "failed":
        return network, check
    del network
    return _native_network(plan, shape), check


def _native_network(plan: LoadPlan, shape: DecoderShape) -> EngineNetwork:
    config, dtype, device, kernels = plan.config, plan.dtype, plan.device, plan.kernels.kernels
    bound, offload = expert_memory(config.expert_memory), None
    if bound:
        assert shape.experts is not None, "the plan refuses others"
        offload = ExpertOffload(bound, len(shape.experts.layers))
    if plan.compiled is not None:
        assert isinstance(kernels, CpuKernels), "the plan refuses other kernels"
        row_bits = 8 if config.activations == "int8" else 16
        reader = WeightReader(kernels, plan.compiled, dtype, row_bits)
        count = plan.compiled.parameters
        if fits_stack(shape, dtype):
            return StackNetwork(shape, read_stack(shape, reader, count), kernels)
        return TorchNetwork(shape, read_layers(kernels, shape, reader, count, offload), kernels)
    backend, quantisation = plan.linear_backend, plan.quantisation
    if offload is not None:
        backend = LinearBackend(dtype, device, kernels, offload)
    spills = offload is not None
    if config.random_weights:
        weights = random_weights(shape, config.seed, dtype, device, quantisation, spills=spills)
    else:
        path = config.model_path
        weights = read_weights(shape, path, dtype, device, quantisation, spills=spills)
    if config.activations != "auto":
        weights = with_rows_of_bytes(weights, floats=config.activations == "fp8")
    return build_network(shape, weights, kernels, backend)


def _load_transformers(plan: LoadPlan) -> LoadedModel:
    # These take three seconds, and mostly are not needed.
    from agentrt.engine.models.hf_description import first_line, refusal
    from agentrt.engine.models.hf_model import load_hf

    config = plan.config
    if "auto_map" in plan.hf_config:
        raise ModelInvalid(
            f"{config.model_path / 'config.json'} asks to run code of its own (auto_map)",
            hint="Use a checkpoint whose architecture transformers has built in",
        )
    network = load_hf(
        config.model_path,
        plan.dtype,
        plan.device,
        random_seed=config.seed if config.random_weights else None,
    )
    sizes = _ModelSizes(**dataclasses.asdict(network.attention), vocabulary=network.vocabulary)
    if plan.self_check.state == "unknown":
        reference = self_check.module_logits(network.module)
        kernels = None if plan.kernels.kernels.name == "torch" else plan.kernels.kernels
        layout = kv_layout(plan, sizes, as_computed=True)
        try:
            logits = self_check.network_logits(
                network, layout, sizes.heads, sizes.vocabulary, kernels
            )
        except ModelInvalid:
            raise
        except Exception as error:  # any error of its code here is about the model
            raise refusal(
                f"{config.model_path} does not run in batches: {first_line(error)}"
            ) from error
        check = self_check.compare_logits(logits, reference, plan.dtype)
        self_check.store_result(plan.self_check_key, check)
        plan = dataclasses.replace(plan, self_check=check)
        if check.state == "failed":
            raise differs(plan)
    return _loaded_model(plan, network, sizes)


@dataclass(frozen=True, slots=True)
class _ModelSizes:
    """Sizes that the engine needs of a transformers model."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int


def _activation_values(sizes: DecoderShape | _ModelSizes) -> int:
    """The stream and its norm, queries, keys, values and their output, and an MLP's three."""
    attention = 2 * (sizes.heads + sizes.kv_heads) * sizes.head_dim
    if not isinstance(sizes, DecoderShape):  # mostly four times as wide as the stream, ungated
        return attention + 16 * sizes.heads * sizes.head_dim
    inner, experts = sizes.inner, sizes.experts
    if experts is not None:
        inner = max(inner, experts.inner * experts.experts_per_token + experts.shared_inner)
    return attention + 4 * sizes.hidden + 3 * inner


def _loaded_model(
    plan: LoadPlan, network: Network, sizes: DecoderShape | _ModelSizes
) -> LoadedModel:
    report = report_of(plan)
    _log.info("%s: %s", plan.config.model_path, report)
    return LoadedModel(
        network=network,
        heads=sizes.heads,
        layout=kv_layout(plan, sizes),
        window_tokens=plan.context.tokens,
        rope_threshold=sizes.rope_threshold if isinstance(sizes, DecoderShape) else 0,
        logits_size=sizes.vocabulary,
        activation_values=_activation_values(sizes),
        name=plan.config.model_path.resolve().name,
        parameters=network.parameters,
        kernels=plan.kernels.kernels,
        shape=sizes if isinstance(sizes, DecoderShape) else None,
        report=report,
        compiled=plan.compiled,
    )
