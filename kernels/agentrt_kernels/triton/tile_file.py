"""The file of a machine's own tiles: measured once, and refused when they were measured otherwise.

A tile that was fastest on one GPU, or in other code of the kernels, is right on another, but slow.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import triton

from agentrt_kernels.triton.blocks import Table

_log = logging.getLogger("agentrt_kernels")


@dataclass(frozen=True, slots=True)
class TileOrigin:
    """GPU, compiler and kernels of a measurement of tiles.

    Attributes:
        device: Name of the GPU.
        triton: Version of Triton, which compiled the kernels.
        kernels: Digest of the kernels' sources.
    """

    device: str
    triton: str
    kernels: str


def origin_here() -> TileOrigin:
    """The GPU, the compiler and the kernels at hand; without a GPU its name is empty."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return TileOrigin(device, triton.__version__, _kernels_digest())


def write_tiles(path: Path, table: Table, origin: TileOrigin) -> None:
    """Write every measured tile and what it was measured on; the file is whole at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    found = {"origin": asdict(origin), "tiles": table.entries()}
    draft.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    draft.replace(path)


def read_tiles(path: Path, here: TileOrigin) -> Table:
    """The tiles of a file; none, with a warning, if they were measured otherwise or are damaged.

    Args:
        path: The file, which need not be there.
        here: Origin of tiles that would be measured now.

    Example:
        >>> read_tiles(Path("missing.json"), TileOrigin("NVIDIA H200", "3.7.1", "")).entries()
        []
    """
    if not path.is_file():
        return Table()
    try:
        found = json.loads(path.read_text("utf-8"))
        fault = origin_change(found["origin"], here)
        if not fault:
            return Table.of(found["tiles"])
    except (OSError, ValueError, KeyError, TypeError):
        fault = "the file is damaged, or was written by an older version"
    _log.warning(
        "the tiles of %s are not used: %s. Measure them again: python -m agentrt_kernels.tune",
        path,
        fault,
    )
    return Table()


def origin_change(then: Mapping[str, Any], here: TileOrigin) -> str:
    """Difference between the origin of tiles and that here; "" if there is none.

    Example:
        >>> origin_change(
        ...     {"device": "NVIDIA H100", "triton": "3.7.1", "kernels": "ab"},
        ...     TileOrigin("NVIDIA H200", "3.7.1", "ab"),
        ... )
        'they were measured on NVIDIA H100, and this is NVIDIA H200'
    """
    if then["device"] != here.device:
        return f"they were measured on {then['device']}, and this is {here.device or 'no GPU'}"
    if then["triton"] != here.triton:
        return f"Triton {then['triton']} compiled the kernels then, and {here.triton} does now"
    if then["kernels"] != here.kernels:
        return "the kernels have changed since"
    return ""


@cache
def _kernels_digest() -> str:
    seen = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        seen.update(file.name.encode() + b"\0" + file.read_bytes())
    return seen.hexdigest()
