"""The compressed-tensors format, which LLM Compressor writes.

`pack-quantized` holds unsigned codes in words of 32 bits along the inputs, which is how a packed
weight has them, byte by byte. `int-quantized` holds signed ones, a byte each, and `float-quantized`
holds FP8.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

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
from agentrt.engine.models.published.fp8 import block_of, fp8_weight
from agentrt.engine.models.published.stored_format import (
    FormatSettings,
    Size,
    StoredMatrix,
    StoredParts,
)

_WHOLE_SETTINGS = (
    *("quant_method", "config_groups", "format", "ignore", "version", "quantization_status"),
    *("kv_cache_scheme", "sparsity_config", "transform_config"),
    *("global_compression_ratio", "run_compressed"),  # of nothing that is computed
)
_WEIGHT_SETTINGS = (
    *("num_bits", "type", "symmetric", "strategy", "group_size", "dynamic", "actorder"),
    "block_structure",
    *("observer", "observer_kwargs", "scale_dtype", "zp_dtype"),  # of how they were made
)
_PARTS = (
    *("weight", "weight_packed", "weight_scale", "weight_zero_point", "weight_shape"),
    *("weight_g_idx", "input_scale", "input_zero_point"),
)


@dataclass(frozen=True, slots=True)
class _Group:
    """One of `config_groups`: how the matrices of some modules are written.

    Attributes:
        stored: How the codes are written.
        bits: Bits of a code.
        strategy: Weights that share a scale.
        group: Inputs that do; 0 is a whole row.
        block: Outputs and inputs that do, in blocks.
        symmetric: Whether the middle code stands for zero.
    """

    stored: Literal["pack-quantized", "int-quantized", "float-quantized"]
    bits: Bits
    strategy: Literal["tensor", "channel", "group", "block"]
    group: int
    block: tuple[int, int]
    symmetric: bool

    @property
    def packed(self) -> bool:
        """Whether codes lie in words."""
        return self.stored == "pack-quantized"

    def size(self, matrix: StoredMatrix) -> Size:
        """Shape of a matrix as this group writes it, `()` if it does not."""
        stored = matrix.sizes.get("weight_packed" if self.packed else "weight", ())
        if len(stored) != 2 or (self.packed and len(matrix.sizes.get("weight_shape", ())) != 1):
            return ()
        return (stored[0], stored[1] * 32 // self.bits if self.packed else stored[1])

    def writes(self, matrix: StoredMatrix) -> bool:
        """Whether it is this group that writes a matrix."""
        size = self.size(matrix)
        if not size:
            return False
        if self.packed and matrix.tensor("weight_shape").tolist() != list(size):
            return False
        scales = {
            "tensor": ((), (1,), (1, 1)),
            "channel": ((size[0], 1), (size[0],)),
            "group": ((size[0], -(-size[1] // max(1, self.group))),),
            "block": ((-(-size[0] // self.block[0]), -(-size[1] // self.block[1])),),
        }
        return matrix.sizes["weight_scale"] in scales[self.strategy]


class CompressedTensors:
    """Matrices of compressed-tensors.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """

    parts = StoredParts("weight_scale", _PARTS)

    def __init__(self, settings: FormatSettings) -> None:
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
        floats = {f"FP{one.bits}" for one in self._groups if one.stored == "float-quantized"}
        kinds = {f"int{one.bits}" for one in self._groups if one.stored != "float-quantized"}
        return f"compressed-tensors {' and '.join(sorted(floats | kinds))}"

    @property
    def has_steps(self) -> bool:
        """Whether all codes stand for steps."""
        return not self.has_floats

    @property
    def has_floats(self) -> bool:
        """Whether some codes are those of FP8."""
        return any(one.stored == "float-quantized" for one in self._groups)

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        return self._group_of(matrix).size(matrix)

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        group = self._group_of(matrix)
        rows, inputs = group.size(matrix)
        if group.stored == "float-quantized":
            return _floats(matrix, group, rows)
        bits: Bits = group.bits if group.packed else 8
        if group.packed:
            values = kept_codes(bytes_of_words(matrix.codes("weight_packed", torch.int32)), bits)
        else:
            values = matrix.codes("weight", torch.int8)
        size = group.group or inputs
        scales = matrix.tensor("weight_scale").reshape(-1, -(-inputs // size)).expand(rows, -1)
        zeros = self._zeros(matrix, group, scales)
        order = input_order(matrix, "weight_g_idx", size)
        return packed_weight(values, bits, scales, zeros, order, size)

    def _zeros(self, matrix: StoredMatrix, group: _Group, scales: Tensor) -> Tensor | None:
        """Codes of zero `[N, G]` as a packed weight has them; files of before 0.9 pack none."""
        if group.symmetric:
            return None
        stored = matrix.tensor("weight_zero_point")
        if stored.dtype is torch.int32 and group.packed and stored.dim() == 2:
            codes = codes_of_words(stored.t(), group.bits).t()[: len(scales)].to(torch.int16)
            found = codes if group.bits == 4 else codes - 128
        else:
            found = stored.to(torch.int16) + (8 if group.packed and group.bits == 4 else 0)
            if found.numel() in (1, len(scales)):
                found = found.reshape(-1, 1).expand(len(scales), -1)
        if found.shape != scales.shape:
            raise matrix.invalid(f"has zeros {tuple(stored.shape)}")
        return found

    def _group_of(self, matrix: StoredMatrix) -> _Group:
        """The group that writes a matrix: its tensors tell, and no pattern has to be matched."""
        for group in self._groups:
            if group.writes(matrix):
                return group
        sizes = ", ".join(f"{part} {size}" for part, size in matrix.sizes.items())
        raise matrix.invalid(f"is written as none of config_groups says: {sizes}")


def _floats(matrix: StoredMatrix, group: _Group, rows: int) -> PackedWeight:
    """Codes of FP8, whose factors may be of blocks, of groups, of outputs or of the matrix."""
    scales = matrix.tensor("weight_scale")
    if group.strategy == "block":
        return fp8_weight(matrix, scales, group.block)
    if group.strategy == "group":
        return fp8_weight(matrix, scales, (1, group.group))
    return fp8_weight(matrix, scales.reshape(-1, 1).expand(rows, 1), (1, 0))


def _read_group(settings: FormatSettings, whole_format: str | None) -> _Group:
    settings.check_known("targets", "weights", "input_activations", "output_activations", "format")
    _check_rows(settings)
    weights = settings.inner("weights")
    weights.check_known(*_WEIGHT_SETTINGS)
    weights.check_one_of("dynamic", [False], False)
    symmetric = weights.check_one_of("symmetric", [True, False], True)
    weights.check_one_of("actorder", [None, False, "static", "weight", "group", "dynamic"])
    stored = settings.get("format", whole_format)
    if stored not in ("pack-quantized", "int-quantized", "float-quantized"):
        raise settings.refused("format", f"and {stored!r} is no pack-, int- or float-quantized")
    floats = stored == "float-quantized"
    weights.check_one_of("type", ["float" if floats else "int"], "int")
    bits = weights.check_one_of("num_bits", [8] if floats else [4, 8])
    if floats and not symmetric:
        raise weights.refused("symmetric", "and FP8 has no zeros")
    default = "channel" if weights.get("group_size", -1) == -1 else "group"
    strategies = ["tensor", "channel", "group", *(["block"] if floats else [])]
    strategy = weights.check_one_of("strategy", strategies, default)
    size = weights.integer("group_size", 1) if strategy == "group" else 0
    block = block_of(weights, "block_structure") if strategy == "block" else (1, 1)
    return _Group(stored, bits, strategy, size, block, symmetric)


def _check_rows(settings: FormatSettings) -> None:
    """Rows of activations may be rounded: here they are not, or to more bits."""
    if settings.get("output_activations") is not None:
        raise settings.refused("output_activations", "which is not computed here")
    rows = settings.inner("input_activations")
    rows.check_known(*_WEIGHT_SETTINGS)
    if rows.names():
        rows.check_one_of("num_bits", [8])
        rows.check_one_of("type", ["int", "float"], "int")
