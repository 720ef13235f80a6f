"""A writer of small GGUF files for tests, made from the description of the format."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 32
TYPE_NUMBERS = {
    **{"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8},
    **{"Q2_K": 10, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20, "BF16": 30},
}
Stored = tuple[str, tuple[int, ...], bytes]
"""Type, shape as in torch, and bytes of a tensor."""


def gguf_bytes(
    fields: Mapping[str, Any], tensors: Mapping[str, Stored], *, version: int = 3
) -> bytes:
    """A whole file; integers are written in 32 bits, floats too."""
    header = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(fields))]
    header += [text(name) + typed(value) for name, value in fields.items()]
    data = b""
    for name, (kind, shape, stored) in tensors.items():
        sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        place = struct.pack("<IQ", TYPE_NUMBERS[kind], len(data))
        header.append(text(name) + struct.pack("<I", len(shape)) + sizes + place)
        data += stored + bytes(-len(stored) % ALIGNMENT)
    head = b"".join(header)
    return head + bytes(-len(head) % ALIGNMENT) + data


def write_gguf(path: Path, fields: Mapping[str, Any], tensors: Mapping[str, Stored]) -> Path:
    """Write a file."""
    path.write_bytes(gguf_bytes(fields, tensors))
    return path


def text(value: str) -> bytes:
    """A text with its length."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """A value with its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<Ii", 5, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    kind, form = (8, None) if not value or isinstance(value[0], str) else (5, "i")
    if value and isinstance(value[0], float):
        kind, form = 6, "f"
    head = struct.pack("<IIQ", 9, kind, len(value))
    if form is None:
        return head + b"".join(map(text, value))
    return head + struct.pack(f"<{len(value)}{form}", *value)


def stored(values: np.ndarray[Any, Any], kind: str = "F32") -> Stored:
    """Values as a tensor of F32, F16 or BF16."""
    if kind == "BF16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return kind, values.shape, (bits >> 16).astype(np.uint16).tobytes()
    dtype = {"F32": np.float32, "F16": np.float16}[kind]
    return kind, values.shape, np.ascontiguousarray(values, dtype).tobytes()
