"""An adapter read for a decoder: its matrices checked against the base, and joined as layers join.

Queries, keys and values are one matrix of the engine, and so are gate and up; an adapter's parts of
them stand one behind the other in its ranks, and each output sees its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agentrt.base.config import LoraAdapter
from agentrt.base.errors import ModelInvalid
from agentrt.base.model_json import unreadable
from agentrt.engine.models.lora.adapter_config import LoraConfig, read_adapter_config
from agentrt.engine.models.native.layer import qkv_rows
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import own_name, weight_shapes
from agentrt_kernels.lora import LayerLowRank, LowRank, RankSpan

FILE_NAME = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_TENSOR = re.compile(r"(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")

Pairs = dict[str, tuple[Tensor, Tensor]]
"""Matrices down `[r, W]` and up `[N, r]` by module."""


def read_adapter(
    adapter: LoraAdapter, shape: DecoderShape, dtype: torch.dtype
) -> list[LayerLowRank]:
    """The parts of an adapter by layer, of the model's dtype.

    Raises:
        ModelInvalid: The adapter is malformed, brings what is not computed, or is of another base.
    """
    config = read_adapter_config(adapter.path)
    pairs = _pairs(config, shape)
    return [_layer(config, shape, pairs, number, dtype) for number in range(shape.layers)]


def _pairs(config: LoraConfig, shape: DecoderShape) -> Pairs:
    """The checked matrices of an adapter by module."""
    file = config.path / FILE_NAME
    sides: dict[str, dict[str, Tensor]] = {}
    for name, tensor in _tensors(file):
        found = _TENSOR.fullmatch(name.removeprefix(_PREFIX))
        module = None if found is None else own_name(shape, f"{found['module']}.weight")
        if found is None or module is None:
            raise _refused(file, name)
        sides.setdefault(module.removesuffix(".weight"), {})[found["side"]] = tensor
    if not sides:
        raise ModelInvalid(f"{file} holds no matrices", hint="Copy the adapter again")
    known, computed = weight_shapes(shape), _modules(shape)
    pairs: Pairs = {}
    for module, both in sides.items():
        if module not in computed:
            raise _refused(file, module)
        if not config.is_target(module):
            raise ModelInvalid(
                f"{file} holds {module}, which target_modules does not name",
                hint="Copy adapter_config.json and the matrices of one adapter",
            )
        rank, size = config.rank_of(module), known[f"{module}.weight"]
        for side, wanted in (("A", (rank, size[1])), ("B", (size[0], rank))):
            given = tuple(both[side].shape) if side in both else None
            if given != wanted:
                raise ModelInvalid(
                    f"{file}: lora_{side} of {module} is {given or 'missing'}, not {wanted}",
                    hint="Give an adapter of this very base model",
                )
            if not bool(torch.isfinite(both[side]).all()):
                raise ModelInvalid(
                    f"{file}: lora_{side} of {module} has values that are not finite",
                    hint="Copy the adapter again",
                )
        pairs[module] = (both["A"], both["B"])
    return pairs


def _modules(shape: DecoderShape) -> set[str]:
    """Modules of a decoder that adapters change."""
    names, found = shape.names, set[str]()
    for layer in range(shape.layers):
        parts = [*names.qkv, "self_attn.o_proj"]
        if not shape.has_experts(layer):
            parts += [*names.gate_up, names.down]
        found |= {f"model.layers.{layer}.{part}" for part in parts}
    return found


def _refused(file: Path, name: str) -> ModelInvalid:
    return ModelInvalid(
        f"{file} holds {name}, which no batch of adapters computes: it changes projections of "
        "attention and of dense MLPs alone",
        hint="Merge the adapter into its base (`model.merge_and_unload()`), or train it on those",
    )


def _layer(
    config: LoraConfig, shape: DecoderShape, pairs: Pairs, number: int, dtype: torch.dtype
) -> LayerLowRank:
    names, at, known = shape.names, f"model.layers.{number}.", weight_shapes(shape)

    def joined(parts: Sequence[str]) -> LowRank | None:
        modules = [at + part for part in parts]
        if not any(module in pairs for module in modules):
            return None
        sizes = [known[f"{module}.weight"][0] for module in modules]
        return _joined(config, pairs, modules, sizes, dtype)

    qkv = joined(names.qkv)
    rows = qkv_rows(shape, number)
    if qkv is not None and rows is not None:
        qkv = LowRank(qkv.down, qkv.scales, qkv.up[rows], qkv.spans)
    if shape.has_experts(number):
        return LayerLowRank(qkv, joined(["self_attn.o_proj"]))
    return LayerLowRank(
        qkv, joined(["self_attn.o_proj"]), joined(names.gate_up), joined([names.down])
    )


def _joined(
    config: LoraConfig, pairs: Pairs, modules: Sequence[str], sizes: list[int], dtype: torch.dtype
) -> LowRank:
    """Matrices of several modules as that of their outputs one behind the other."""
    ranks = sum(pairs[one][0].shape[0] for one in modules if one in pairs)
    up = torch.zeros((sum(sizes), ranks), dtype=dtype)
    downs: list[Tensor] = []
    scales: list[Tensor] = []
    spans: list[RankSpan] = []
    output = rank = 0
    for module, outputs in zip(modules, sizes, strict=True):
        if module in pairs:
            lower, upper = pairs[module]
            past = rank + lower.shape[0]
            up[output : output + outputs, rank:past] = upper.to(dtype)
            downs.append(lower.to(dtype))
            scales.append(torch.full((past - rank,), config.scale_of(module)))
            spans.append(RankSpan(output, output + outputs, rank, past))
            rank = past
        output += outputs
    return LowRank(torch.cat(downs), torch.cat(scales), up, tuple(spans))


def _tensors(file: Path) -> list[tuple[str, Tensor]]:
    if not file.is_file():
        others = sorted(one.name for one in file.parent.glob("adapter_model.*"))
        what = f", only {others[0]}, which may run code" if others else ""
        raise ModelInvalid(
            f"the adapter {file.parent} has no {FILE_NAME}{what}",
            hint="Save it with PEFT's `save_pretrained`, which writes safetensors",
        )
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            return [(name, opened.get_tensor(name)) for name in opened.keys()]  # noqa: SIM118
    except (OSError, SafetensorError, RecursionError) as error:
        raise unreadable(file, error, hint="Copy the adapter again: it is not whole") from error
