"""GGUF files of the embedded model with quantised matrices, one layer maybe with two bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file

from agentrt import embedded
from tests.engine.gguf_models import fields_of, tensors_of
from tests.gguf_writer import Stored, write_gguf

Values = NDArray[np.float32]
_BLOCK = 32


def write_packed(path: Path, *, two_bits: int | None = None) -> Path:
    """The embedded model in Q8_0, its embedding in fp32.

    Args:
        path: The file; a folder beside it holds what its metadata is made of.
        two_bits: Layer whose matrices have four values a block, stored in Q4_0.
    """
    folder = path.with_suffix("")
    shutil.copytree(embedded.path(), folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = (folder / "chat_template.jinja").read_text()
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = json.loads((folder / "config.json").read_text())
    weights = {
        name: values.float().numpy()
        for name, values in load_file(folder / "model.safetensors").items()
    }
    tensors = tensors_of(weights, config, "llama", "F32")
    for name, (_, shape, raw) in tensors.items():
        if len(shape) < 2 or name.startswith("token_embd."):
            continue
        values = np.frombuffer(raw, np.float32).reshape(shape)
        coarse = name.startswith(f"blk.{two_bits}.")
        tensors[name] = _two_bits(values) if coarse else _q8_0(values)
    return write_gguf(path, fields_of(config, folder, "llama"), tensors)


def _q8_0(values: Values) -> Stored:
    blocks = values.reshape(-1, _BLOCK)
    scales = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    codes = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-12)).clip(-127, 127)
    raw = np.concatenate((scales.view(np.uint8), codes.astype(np.int8).view(np.uint8)), axis=1)
    return "Q8_0", values.shape, raw.tobytes()


def _two_bits(values: Values) -> Stored:
    """Blocks of Q4_0 that use four of its sixteen codes."""
    blocks = values.reshape(-1, _BLOCK)
    scales = (np.abs(blocks).max(1, keepdims=True) / 2).astype(np.float16)
    codes = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-12)).clip(-2, 1) + 8
    whole = codes.astype(np.uint8)
    halves = whole[:, :16] | whole[:, 16:] << 4
    return "Q4_0", values.shape, np.concatenate((scales.view(np.uint8), halves), axis=1).tobytes()
