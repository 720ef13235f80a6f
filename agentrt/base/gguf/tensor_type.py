"""Tensor types of GGUF: blocks of values and their bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorType:
    """How a tensor's values are stored.

    Attributes:
        name: llama.cpp's name, such as `Q8_0`.
        block_values: Values of one block, neighbours in a row.
        block_bytes: Bytes of one block.
    """

    name: str
    block_values: int
    block_bytes: int


_SUPER = 256
"""Values of a block of the K types."""

TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 36),
    10: TensorType("Q2_K", _SUPER, 84),
    11: TensorType("Q3_K", _SUPER, 110),
    12: TensorType("Q4_K", _SUPER, 144),
    13: TensorType("Q5_K", _SUPER, 176),
    14: TensorType("Q6_K", _SUPER, 210),
    15: TensorType("Q8_K", _SUPER, 292),
    16: TensorType("IQ2_XXS", _SUPER, 66),
    17: TensorType("IQ2_XS", _SUPER, 74),
    18: TensorType("IQ3_XXS", _SUPER, 98),
    19: TensorType("IQ1_S", _SUPER, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", _SUPER, 110),
    22: TensorType("IQ2_S", _SUPER, 82),
    23: TensorType("IQ4_XS", _SUPER, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", _SUPER, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", _SUPER, 54),
    35: TensorType("TQ2_0", _SUPER, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
    42: TensorType("Q2_0", 64, 18),
}
"""Types by their number in a file."""
