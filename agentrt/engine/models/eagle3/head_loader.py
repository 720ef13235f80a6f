"""The loader of EAGLE-3 heads, as SpecForge publishes them for SGLang and vLLM.

Such a head has one layer (`midlayer`), `fc` over three states of its target, a `norm`, an `lm_head`
over the tokens that it drafts, and `d2t`: what is added to the number of each of these to find the
target's. Its embedding is the target's unless it has one of its own.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.checkpoint import (
    read_config,
    stored_quantised,
    tensor_shapes,
    tensors,
)
from agentrt.engine.models.context_limit import context_limit
from agentrt.engine.models.eagle3.head_config import HeadConfig, head_config
from agentrt.engine.models.eagle3.head_network import HeadLayer, HeadNetwork, HeadWeights
from agentrt.engine.models.eagle3.head_operations import HeadOperations
from agentrt.engine.models.eagle3.head_stack import HeadStack
from agentrt.engine.models.loader import LoadedModel
from agentrt.engine.models.native.build import EngineNetwork
from agentrt.engine.models.native.expert_weights import Shapes
from agentrt.engine.models.native.stack_network import StackNetwork
from agentrt.engine.models.native.stack_weights import fits_stack
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.native.weights import parameter_count, weight_shapes
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import Kernels
from agentrt_kernels.cpu.kernel_set import CpuKernels

EMBEDDING, TO_TARGET, IS_DRAFTED = "embed_tokens.weight", "d2t", "t2d"


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head beside its target.

    Attributes:
        model: The head as a model of the engine.
        network: Network of the head.
        fuse: Fuses three states of the target, `[T, 3 * width]` to `[T, W]`.
        capture_layers: Layers of the target before which these are taken.
        hidden: W.
        target: Network of the target.
    """

    model: LoadedModel
    network: HeadNetwork
    fuse: Linear
    capture_layers: tuple[int, ...]
    hidden: int
    target: EngineNetwork


def load_head(config: EngineConfig, path: Path, target: LoadedModel) -> LoadedHead:
    """Load the head in `path` for a target.

    Args:
        config: Config of the engine.
        path: Directory of the head.
        target: The target, loaded.

    Raises:
        ModelInvalid: The head lacks something, is made for another model, or drafts for one whose
            states are not seen.
    """
    network, shape, dtype = target.network, target.shape, target.layout.dtype
    if config.device != "cpu":
        raise ModelInvalid(
            f"the EAGLE-3 head {path} drafts on a CPU alone, not on {config.device}",
            hint="Give --draft-model a smaller model there, or leave it",
        )
    if shape is None or not isinstance(network, StackNetwork | TorchNetwork):
        raise ModelInvalid(
            f"{config.model_path} goes through transformers, which shows an EAGLE-3 head no states",
            hint="Give --draft-model a smaller model, or leave it",
        )
    settings = read_config(path, weights=True)
    own = head_config(path, settings, shape)
    if kind := stored_quantised(path).name:
        raise _broken(path, f"its matrices are quantised ({kind})")
    has_embedding = _check_tensors(path, own, tensor_shapes(path))
    weights = {
        _plain_name(name): tensor
        for name, tensor in tensors(path, dtype, target.layout.device)
        if isinstance(tensor, Tensor)
    }
    backend = LinearBackend(dtype, target.layout.device, target.kernels)
    fuse = backend.linear(weights.pop("fc.weight"))
    targets = _targets(path, own)
    for name in (TO_TARGET, IS_DRAFTED):
        weights.pop(name, None)
    embedding = weights.pop(EMBEDDING, None) if has_embedding else None
    weights = {_name_in_decoder(name): weight for name, weight in weights.items()}
    parts = HeadWeights(
        dict(weights), network.embedding if embedding is None else embedding, targets
    )
    made = _network(own, parts, target.kernels, backend)
    layout = dataclasses.replace(
        target.layout, layers=1, kv_heads=own.shape.kv_heads, head_dim=own.shape.head_dim
    )
    model = LoadedModel(
        network=made,
        heads=own.shape.heads,
        layout=layout,
        window_tokens=context_limit(settings).tokens,
        rope_threshold=0,
        logits_size=target.logits_size,
        activation_values=4 * own.shape.hidden + own.vocabulary,
        name=path.resolve().name,
        parameters=made.parameters,
        kernels=target.kernels,
        shape=own.shape,
        report=dataclasses.replace(target.report, architecture="eagle3", path="fast"),
        state_bytes=own.shape.hidden * dtype.itemsize,
    )
    return LoadedHead(model, made, fuse, own.capture_layers, own.shape.hidden, network)


def _network(
    config: HeadConfig, weights: HeadWeights, kernels: Kernels, backend: LinearBackend
) -> HeadNetwork:
    """Build the network; consumes `weights`."""
    parameters = parameter_count(config.shape, weights.decoder)
    layer: HeadLayer
    if isinstance(kernels, CpuKernels) and fits_stack(config.shape, backend.dtype):
        layer = HeadStack(config, weights, kernels)
    else:
        layer = HeadOperations(config, weights, kernels, backend)
    is_single_call = isinstance(layer, HeadStack)
    return HeadNetwork(config, layer, weights.targets, parameters, is_single_call=is_single_call)


def head_shapes(config: HeadConfig) -> Shapes:
    """Names and shapes of the weights that a head has to have, as published."""
    shape = config.shape
    found: Shapes = {"fc.weight": (shape.hidden, 3 * config.target_hidden)}
    for name, size in weight_shapes(shape).items():
        if name == "model.embed_tokens.weight":
            continue
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            size = (size[0], 2 * size[1])
        found[name.replace("model.layers.0.", "midlayer.").removeprefix("model.")] = size
    found["midlayer.hidden_norm.weight"] = (shape.hidden,)
    if shape.vocabulary != config.vocabulary:
        found[TO_TARGET] = (shape.vocabulary,)
    return found


def _check_tensors(path: Path, config: HeadConfig, found: Shapes) -> bool:
    """Check the tensors of a head; whether it has an embedding of its own."""
    found = {_plain_name(name): size for name, size in found.items()}
    for name, size in head_shapes(config).items():
        if name not in found:
            raise _broken(path, f"it lacks {name}")
        if found[name] != size:
            raise _broken(path, f"{name} is {found[name]}, not {size}")
    embedding = found.get(EMBEDDING)
    size = (config.vocabulary, config.shape.hidden)
    if embedding is not None and embedding != size:
        raise _broken(path, f"{EMBEDDING} is {embedding}, not {size}")
    if embedding is None and config.shape.hidden != config.target_hidden:
        raise _broken(path, f"it lacks {EMBEDDING}, and its target's is of another width")
    return embedding is not None


def _targets(path: Path, config: HeadConfig) -> Tensor | None:
    """`[d]` int64, the target's tokens that a head drafts; None if that are all."""
    drafted = config.shape.vocabulary
    if drafted == config.vocabulary:
        return None
    wide = tensors(path, torch.int64, torch.device("cpu"))
    added = next(tensor for name, tensor in wide if _plain_name(name) == TO_TARGET)
    assert isinstance(added, Tensor)
    targets = torch.arange(drafted) + added
    known = set(targets.tolist())
    if len(known) != drafted or min(known) < 0 or max(known) >= config.vocabulary:
        raise _broken(
            path, f"{TO_TARGET} names no {drafted} tokens of a vocabulary of {config.vocabulary}"
        )
    return targets


def _plain_name(name: str) -> str:
    """The published name of a tensor, which some write as that of a decoder's layer."""
    name = name.removeprefix("model.")
    return name.replace("layers.0.", "midlayer.") if name.startswith("layers.0.") else name


def _name_in_decoder(name: str) -> str:
    if name == "lm_head.weight":
        return name
    return "model." + name.replace("midlayer.", "layers.0.")


def _broken(path: Path, reason: str) -> ModelInvalid:
    return ModelInvalid(
        f"the EAGLE-3 head {path} does not hold what its config says: {reason}",
        hint="Copy it again, or export it with SpecForge",
    )
