"""Write a GGUF file from a safetensors checkpoint, as the job on standard input says.

Runs in the peers' environment, with the `gguf` package of llama.cpp's authors. What goes where is
decided by `agentrt.lab.checkpoints.gguf`; here it is only done.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gguf
import torch
from safetensors import safe_open
from torch import Tensor


def main() -> None:
    """One job: `source`, `target`, `architecture`, `fields`, `tensors`, `dtype`."""
    job = json.load(sys.stdin)
    writer = gguf.GGUFWriter(job["target"], job["architecture"])
    for name, kind, value in job["fields"]:
        getattr(writer, _ADDERS[kind])(name, value)
    with safe_open(job["source"], "pt") as source:
        for fact in job["tensors"]:
            _add(writer, fact, _read(source, fact), job["dtype"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


_ADDERS = {
    "text": "add_string",
    "integer": "add_uint32",
    "number": "add_float32",
    "truth": "add_bool",
    "list": "add_array",
}


def _read(source: Any, fact: dict[str, Any]) -> Tensor:
    """The tensor, its heads reordered or its experts stacked where the fact says so."""
    read: list[Tensor] = [source.get_tensor(name) for name in fact["sources"]]
    tensor = torch.stack(read) if fact["stacked"] else read[0]
    heads = fact["rotated_heads"]
    if heads:  # halves of a rotation stand side by side there, and apart here
        rest = tensor.shape[1:]
        tensor = tensor.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(-1, *rest)
    return tensor.contiguous()


def _add(writer: Any, fact: dict[str, Any], tensor: Tensor, dtype: str) -> None:
    if fact["exact"] or dtype == "float32":
        writer.add_tensor(fact["target"], tensor.float().numpy())
    else:
        raw = tensor.to(torch.bfloat16).view(torch.uint16).numpy()
        writer.add_tensor(
            fact["target"],
            raw.view("uint8"),
            raw_dtype=gguf.GGMLQuantizationType.BF16,
        )


if __name__ == "__main__":
    main()
