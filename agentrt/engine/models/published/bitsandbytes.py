"""The formats of bitsandbytes: NF4 and FP4 by a table of sixteen values, and int8 by rows.

Codes of four bits lie in one run over the whole matrix, the first of a byte in its upper half, and
blocks of the run share a factor. With nested factors those are codes themselves, of eight bits.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.codes import packed_weight
from agentrt.engine.models.published.stored_format import (
    FormatSettings,
    Size,
    StoredMatrix,
    StoredParts,
)

_FOUR = ("load_in_4bit", "_load_in_4bit")
_EIGHT = ("load_in_8bit", "_load_in_8bit")
_OF_THE_DATA = (
    *("quant_method", "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage"),
    *("bnb_4bit_compute_dtype", "llm_int8_skip_modules", "llm_int8_has_fp16_weight"),
    *("llm_int8_enable_fp32_cpu_offload", "llm_int8_threshold", "bnb_4bit_quant_type"),
)
"""FormatSettings that the tensors tell as well, or that say how bitsandbytes itself computes."""
_STATE = "weight.quant_state.bitsandbytes__"
_STEPS = 127.0  # of the largest value of a row in int8


def bitsandbytes(settings: FormatSettings) -> FourBits | EightBits:
    """The format of a checkpoint of bitsandbytes.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """
    settings.check_known(*_FOUR, *_EIGHT, *_OF_THE_DATA)
    if any(settings.get(name) is True for name in _FOUR):
        return FourBits(settings.check_one_of("bnb_4bit_quant_type", ["nf4", "fp4"], "fp4"))
    if any(settings.get(name) is True for name in _EIGHT):
        settings.check_one_of("llm_int8_has_fp16_weight", [False], False)
        return EightBits()
    raise settings.refused("load_in_4bit", "and nothing says how many bits there are")


class EightBits:
    """Matrices in int8, with the largest value of each row."""

    name = "bitsandbytes int8"
    has_steps = True
    has_floats = False
    parts = StoredParts("SCB", ("weight", "SCB", "weight_format"))

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        return matrix.sizes.get("weight", ())

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        values, largest = matrix.codes("weight", torch.int8), matrix.tensor("SCB").float()
        if largest.numel() != len(values):
            raise matrix.invalid(f"has SCB {tuple(largest.shape)} for {len(values)} rows")
        if "weight_format" in matrix and matrix.tensor("weight_format").item() != 0:
            raise matrix.invalid("is not laid out by rows (weight_format)")
        scales = largest.reshape(-1, 1) / _STEPS
        return packed_weight(values, 8, scales, None, None, values.shape[1])


class FourBits:
    """Matrices in codes of a table of sixteen values.

    Args:
        kind: "nf4" or "fp4".
    """

    has_steps = False
    has_floats = False

    def __init__(self, kind: str) -> None:
        self.name = f"bitsandbytes {kind}"
        self._state = _STATE + kind
        self.parts = StoredParts(
            self._state,
            (
                *("weight", self._state, "weight.absmax", "weight.quant_map"),
                *("weight.nested_absmax", "weight.nested_quant_map"),
            ),
        )

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        return self._described(matrix)[0]

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        (rows, inputs), block, state = self._described(matrix)
        stored = matrix.tensor("weight").reshape(-1)
        if stored.dtype is not torch.uint8:
            stored = stored.view(torch.uint8)
        factors, table = _factors(matrix, state), matrix.tensor("weight.quant_map")
        if inputs % block:
            raise matrix.invalid(f"has blocks of {block} across the ends of its {inputs} inputs")
        if len(stored) * 2 != rows * inputs or factors.numel() * block != rows * inputs:
            raise matrix.invalid(
                f"is {(rows, inputs)}, of {len(stored)} bytes and {factors.numel()} factors"
            )
        if table.shape != (16,) or table.dtype is not torch.float32:
            raise matrix.invalid(f"has a table {tuple(table.shape)} in {table.dtype}")
        values = (stored >> 4 | stored << 4).view(rows, inputs // 2)
        return PackedWeight(4, values, factors.view(rows, -1), None, block, table=table)

    def _described(self, matrix: StoredMatrix) -> tuple[tuple[int, int], int, dict[str, Any]]:
        """Shape, inputs of a block, and all that `quant_state` says."""
        raw = matrix.tensor(self._state)
        try:
            state = json.loads(bytes(raw.tolist()))
            rows, inputs = (int(one) for one in state["shape"])
            block = int(state["blocksize"])
            if min(rows, inputs, block) < 1 or inputs % 2:
                raise ValueError(state["shape"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise matrix.invalid(f"has a quant_state that cannot be read: {error}") from None
        return (rows, inputs), block, state


def _factors(matrix: StoredMatrix, state: dict[str, Any]) -> Tensor:
    """Factors of all blocks, fp32; nested ones are read from codes."""
    stored = matrix.tensor("weight.absmax")
    if "nested_blocksize" not in state:
        return stored.float()
    table, largest = (
        matrix.tensor(f"weight.nested_{part}").float() for part in ("quant_map", "absmax")
    )
    block, offset = state.get("nested_blocksize"), state.get("nested_offset")
    if not isinstance(block, int) or not isinstance(offset, float) or block < 1:
        raise matrix.invalid("has nested factors that are not described")
    if stored.dtype is not torch.uint8 or table.shape != (256,):
        raise matrix.invalid(f"has nested factors in {stored.dtype}")
    if len(largest) != -(-len(stored) // block):
        raise matrix.invalid(f"has {len(largest)} factors of {len(stored)} factors")
    each = largest.repeat_interleave(block)[: len(stored)]
    return table[stored.long()] * each + offset
