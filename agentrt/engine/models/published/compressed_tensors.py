"""The compressed-tensors format, which LLM Compressor writes.

`pack-quantized` holds unsigned codes in words of 32 bits along the inputs, which is how a packed
weight has them, byte by byte. `int-quantized` holds signed ones, a byte each.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.codes import (
    Bits,
    bytes_of_words,
    codes_of_words,
    input_order,
    kept_codes,
    packed_weight,
)
from agentrt.engine.models.published.stored_format import Settings, Size, invalid_matrix

_WHOLE_SETTINGS = (
    *("quant_method", "config_groups", "format", "ignore", "version", "quantization_status"),
    *("kv_cache_scheme", "sparsity_config", "transform_config"),
    *("global_compression_ratio", "run_compressed"),  # of nothing that is computed
)
_WEIGHT_SETTINGS = (
    *("num_bits", "type", "symmetric", "strategy", "group_size", "dynamic", "actorder"),
    *("observer", "observer_kwargs", "scale_dtype", "zp_dtype"),  # of how they were made
)
_ROW_SETTINGS = (*_WEIGHT_SETTINGS, "block_structure")
_PARTS = (
    *("weight", "weight_packed", "weight_scale", "weight_zero_point", "weight_shape"),
    *("weight_g_idx", "input_scale", "input_zero_point"),
)
_LAYERS = ("Linear",)
"""Classes of modules that a group may name; a decoder has no other matrices."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One of `config_groups`: how the matrices of some modules are written."""

    targets: tuple[str, ...]
    packed: bool
    bits: Bits
    strategy: Literal["tensor", "channel", "group"]
    size: int

    def names(self, module: str) -> bool:
        """Whether it targets a module by its name."""
        return any(
            re.match(one[3:], module) is not None
            if one.startswith("re:")
            else module == one or module.endswith(f".{one}")
            for one in self.targets
        )

    def takes_rest(self) -> bool:
        """Whether it targets all linear layers."""
        return any(one in _LAYERS for one in self.targets)


class CompressedTensors:
    """Matrices of compressed-tensors.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """

    mark = "weight_scale"
    parts: Sequence[str] = _PARTS

    def __init__(self, settings: Settings) -> None:
        self._path = settings.path
        settings.check_known(*_WHOLE_SETTINGS)
        settings.check_one_of("quantization_status", ["compressed", None])
        for name in ("kv_cache_scheme", "transform_config"):
            if settings.get(name, {}) not in ({}, {"config_groups": {}}):
                raise settings.refused(name, "which is not computed here")
        sparse = settings.inner("sparsity_config")
        if sparse.get("format", "dense") != "dense":
            raise sparse.refused("format", "and what is read here is dense")
        groups = settings.inner("config_groups")
        self._groups = [
            _read_group(groups.inner(name), settings.get("format")) for name in groups.names()
        ]
        if not self._groups:
            raise settings.refused("config_groups", "which names no matrices")

    @property
    def name(self) -> str:
        """Name for display."""
        kinds = sorted({one.bits for one in self._groups})
        return f"compressed-tensors {' and '.join(f'int{bits}' for bits in kinds)}"

    def size(self, module: str, parts: Mapping[str, Size]) -> Size:
        """See `StoredFormat`."""
        group = self._group_of(module)
        stored = parts.get("weight_packed" if group.packed else "weight", ())
        if len(stored) != 2:
            raise invalid_matrix(self._path, module, "has scales and no matrix of codes")
        return (stored[0], stored[1] * 32 // group.bits if group.packed else stored[1])

    def packed(self, module: str, parts: Mapping[str, Tensor]) -> PackedWeight:
        """See `StoredFormat`."""
        group = self._group_of(module)
        rows, inputs = self.size(module, {name: tuple(one.shape) for name, one in parts.items()})
        stored = parts["weight_packed" if group.packed else "weight"]
        if stored.dtype is not (torch.int32 if group.packed else torch.int8):
            raise invalid_matrix(self._path, module, f"has codes in {stored.dtype}")
        shape = parts.get("weight_shape")
        if shape is not None and shape.tolist() != [rows, inputs]:
            raise invalid_matrix(
                self._path, module, f"is {tuple(shape.tolist())}, in words for {(rows, inputs)}"
            )
        bits: Bits = group.bits if group.packed else 8
        values = kept_codes(bytes_of_words(stored), bits) if group.packed else stored
        size = inputs if group.strategy != "group" else group.size
        scales, order = parts["weight_scale"], None
        if group.strategy == "tensor":
            scales = scales.reshape(-1, 1).expand(rows, 1)
        if tuple(scales.shape) != (rows, -(-inputs // size)):
            raise invalid_matrix(self._path, module, f"has scales {tuple(scales.shape)}")
        if "weight_g_idx" in parts:
            order = input_order(parts["weight_g_idx"], size, module, self._path)
        zeros = self._zeros(module, group, scales, parts.get("weight_zero_point"))
        return packed_weight(values, bits, scales, zeros, order, size)

    def _zeros(
        self, module: str, group: _Group, scales: Tensor, stored: Tensor | None
    ) -> Tensor | None:
        """Codes of zero `[N, G]` as a packed weight has them; files of before 0.9 pack none."""
        if stored is None:
            return None
        if stored.dtype is torch.int32 and group.packed:
            codes = codes_of_words(stored.t(), group.bits).t()[: len(scales)].to(torch.int16)
            found = codes if group.bits == 4 else codes - 128
        else:
            found = stored.to(torch.int16) + (8 if group.packed and group.bits == 4 else 0)
            found = found.reshape(-1, 1) if found.dim() < 2 else found
            found = found.expand(len(scales), -1)
        if found.shape != scales.shape:
            raise invalid_matrix(self._path, module, f"has zeros {tuple(stored.shape)}")
        return found

    def _group_of(self, module: str) -> _Group:
        named = [one for one in self._groups if one.names(module)]
        rest = [one for one in self._groups if one.takes_rest()]
        found = next(iter((*named, *rest)), None)
        if found is None:
            raise invalid_matrix(self._path, module, "is quantised, and no group targets it")
        return found


def _read_group(settings: Settings, whole_format: str | None) -> _Group:
    settings.check_known("targets", "weights", "input_activations", "output_activations", "format")
    targets = settings.get("targets", [])
    if not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
        raise settings.refused("targets", "which is no list of names")
    _check_rows(settings)
    weights = settings.inner("weights")
    weights.check_known(*_WEIGHT_SETTINGS)
    weights.check_one_of("type", ["int"], "int")
    weights.check_one_of("dynamic", [False], False)
    weights.check_one_of("symmetric", [True, False], True)
    weights.check_one_of("actorder", [None, False, "static", "weight", "group", "dynamic"])
    bits = weights.check_one_of("num_bits", [4, 8])
    default = "group" if weights.get("group_size", 0) > 0 else "channel"
    strategy = weights.check_one_of("strategy", ["tensor", "channel", "group"], default)
    size = weights.integer("group_size", 1) if strategy == "group" else 0
    stored = settings.get("format", whole_format)
    if stored not in ("pack-quantized", "int-quantized"):
        name = "format" if settings.get("format") else "(whole).format"
        raise settings.refused(name, f"and {stored!r} is neither pack- nor int-quantized")
    return _Group(tuple(targets), stored == "pack-quantized", bits, strategy, size)


def _check_rows(settings: Settings) -> None:
    """Rows of activations may be rounded: here they are not, or to more bits."""
    if settings.get("output_activations") is not None:
        raise settings.refused("output_activations", "which is not computed here")
    rows = settings.inner("input_activations")
    rows.check_known(*_ROW_SETTINGS)
    if rows.names():
        rows.check_one_of("num_bits", [8])
        rows.check_one_of("type", ["int", "float"], "int")
