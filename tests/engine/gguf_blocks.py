"""Random blocks of GGUF's quantised types, and their values one by one.

The values follow the description of the format, as llama.cpp's own loops do: no arrays, no packing.
"""

from __future__ import annotations

import random
import struct

SIZES = {
    **{"Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24)},
    **{"Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)},
}
"""Values and bytes of a block."""


def random_block(kind: str, draws: random.Random, scale: float = 0.004) -> bytes:
    """A block whose values are of about the size of weights."""
    block = bytearray(draws.randbytes(SIZES[kind][1]))
    halves = {"Q6_K": (208,), "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,)}.get(kind, (0, 2))
    smaller = {"Q4_K": 40, "Q5_K": 60, "Q6_K": 60, "Q8_0": 6}.get(kind, 1)
    for at in halves:
        value = draws.uniform(0.5, 1.0) * scale / smaller * draws.choice((1, -1))
        block[at : at + 2] = struct.pack("<e", value)
    return bytes(block)


def block_values(kind: str, block: bytes) -> list[float]:
    """The values of a block."""
    return {
        "Q8_0": _q8_0,
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q5_0": _q5_0,
        "Q5_1": _q5_1,
        "Q4_K": _q4_k,
        "Q5_K": _q5_k,
        "Q6_K": _q6_k,
    }[kind](block)


def _half(block: bytes, at: int) -> float:
    value: float = struct.unpack_from("<e", block, at)[0]
    return value


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _q8_0(block: bytes) -> list[float]:
    return [_half(block, 0) * _signed(byte) for byte in block[2:]]


def _nibbles(raw: bytes) -> list[int]:
    return [byte & 15 for byte in raw] + [byte >> 4 for byte in raw]


def _q4_0(block: bytes) -> list[float]:
    return [_half(block, 0) * (code - 8) for code in _nibbles(block[2:])]


def _q4_1(block: bytes) -> list[float]:
    return [_half(block, 0) * code + _half(block, 2) for code in _nibbles(block[4:])]


def _five_bits(low: bytes, high: bytes) -> list[int]:
    bits = int.from_bytes(high, "little")
    return [code | (bits >> at & 1) << 4 for at, code in enumerate(_nibbles(low))]


def _q5_0(block: bytes) -> list[float]:
    return [_half(block, 0) * (code - 16) for code in _five_bits(block[6:], block[2:6])]


def _q5_1(block: bytes) -> list[float]:
    codes = _five_bits(block[8:], block[4:8])
    return [_half(block, 0) * code + _half(block, 2) for code in codes]


def _scale_and_minimum(packed: bytes, group: int) -> tuple[int, int]:
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    low, high = packed[group + 4] & 15, packed[group + 4] >> 4
    return low | packed[group - 4] >> 6 << 4, high | packed[group] >> 6 << 4


def _k_values(block: bytes, codes: bytes, high: bytes) -> list[float]:
    values = []
    for group in range(8):
        scale, minimum = _scale_and_minimum(block[4:16], group)
        run = codes[group // 2 * 32 : group // 2 * 32 + 32]
        for at, byte in enumerate(run):
            code = byte >> 4 if group % 2 else byte & 15
            code |= (high[at] >> group & 1) << 4
            values.append(_half(block, 0) * scale * code - _half(block, 2) * minimum)
    return values


def _q4_k(block: bytes) -> list[float]:
    return _k_values(block, block[16:], bytes(32))


def _q5_k(block: bytes) -> list[float]:
    return _k_values(block, block[48:], block[16:48])


def _q6_k(block: bytes) -> list[float]:
    values = [0.0] * 256
    for half in range(2):
        low, high = block[64 * half : 64 * half + 64], block[128 + 32 * half : 160 + 32 * half]
        scales = block[192 + 8 * half : 200 + 8 * half]
        for at in range(32):
            for quarter in range(4):
                byte = low[at + 32 * (quarter % 2)]
                code = byte >> 4 if quarter > 1 else byte & 15
                code |= (high[at] >> 2 * quarter & 3) << 4
                scale = _signed(scales[2 * quarter + at // 16])
                values[128 * half + 32 * quarter + at] = _half(block, 208) * scale * (code - 32)
    return values
