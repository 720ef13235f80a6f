"""GGUF files of the tiny models whose matrices are random blocks of quantised types."""

import random

import torch
from safetensors.torch import load_file, save_file

from tests.engine.gguf_blocks import SIZES, block_values, random_block
from tests.engine.gguf_models import NAMES, write_model

WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2}


def matrix(kind: str, rows: int, inputs: int, seed: int = 0) -> tuple[bytes, torch.Tensor]:
    """Blocks of a random matrix, and its values."""
    draws = random.Random(f"{kind} {seed}")
    count = rows * inputs // SIZES[kind][0]
    blocks = [random_block(kind, draws) for _ in range(count)]
    values = [value for block in blocks for value in block_values(kind, block)]
    return b"".join(blocks), torch.tensor(values).view(rows, inputs)


def quantised_model(engine, path, kind_of):
    """A model in a file with random blocks, and a directory with their values.

    Args:
        engine: Helpers.
        path: Folder of both.
        kind_of: Type of a matrix by its name in the file.
    """
    folder = path / "folder"
    engine.save_model("llama", folder, **WIDE)
    weights, extra = load_file(folder / "model.safetensors"), {}
    for number, (name, weight) in enumerate(sorted(weights.items())):
        if weight.dim() == 1:
            continue
        target = name
        for own, other in NAMES.items():
            target = target.replace(own, other)
        kind = kind_of(target)
        rows, inputs = weight.shape
        raw, values = matrix(kind, rows, inputs, number)
        extra[target] = (kind, tuple(weight.shape), raw)
        if "attn_q" in target or "attn_k" in target:
            heads = 4 if "attn_q" in target else 2
            values = values.view(heads, -1, 2, 256).transpose(1, 2).reshape(weight.shape)
        weights[name] = values
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return write_model(path / "x.gguf", folder, "llama", extra=extra), folder
