"""Write a GGUF file from a safetensors checkpoint, by the job on standard input.

Runs in the peers' environment, with the `gguf` package of llama.cpp's authors. The job is made by
`agentrt.lab.checkpoints.gguf`.
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
    """Do one job: `source`, `target`, `architecture`, `fields`, `tensors`, `dtype`."""
    job = json.load(sys.stdin)
    writer = gguf.GGUFWriter(job["target"], job["architecture"])
    for name, value in job["fields"].items():
        getattr(writer, _ADDERS[type(value)])(name, value)
    with safe_open(job["source"], "pt") as source:
        for spec in job["tensors"]:
            _add(writer, spec, _read(source, spec), job["dtype"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


_ADDERS = {
    str: "add_string",
    int: "add_uint32",
    float: "add_float32",
    bool: "add_bool",
    list: "add_array",
}


def _read(source: Any, spec: dict[str, Any]) -> Tensor:
    """Read a tensor, and reorder its heads or stack its experts."""
    read: list[Tensor] = [source.get_tensor(name) for name in spec["sources"]]
    tensor = torch.stack(read) if spec["stacked"] else read[0]
    heads = spec["rotated_heads"]
    if heads:  # from halves of a rotation to neighbours
        rest = tensor.shape[1:]
        tensor = tensor.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(-1, *rest)
    return tensor.contiguous()


def _add(writer: Any, spec: dict[str, Any], tensor: Tensor, dtype: str) -> None:
    if spec["exact"] or dtype == "float32":
        writer.add_tensor(spec["target"], tensor.float().numpy())
    elif dtype == "float16":
        writer.add_tensor(spec["target"], tensor.half().numpy())
    else:
        raw = tensor.to(torch.bfloat16).view(torch.uint16).numpy()
        writer.add_tensor(
            spec["target"],
            raw.view("uint8"),
            raw_dtype=gguf.GGMLQuantizationType.BF16,
        )


if __name__ == "__main__":
    main()
