"""How large a tile each kernel works on: a table, read at load, written by `agentrt_kernels.tune`.

Entries that were measured stand in `blocks.json` beside this file (of an H200), or, for one machine
alone, in its cache directory (`tile_file`). A case without an entry takes a default. Defaults are
reasoned, not measured:

* A Hopper multiprocessor has 228 KB of shared memory and, for reads to run at full rate, needs some
  30 KB of them under way. A tile of 64 tokens of keys and values at D = 128 in 16 bits is 32 KB.
  Stages are halved between page numbers and what they point to: five keep two tiles under way.
* Prompts use the widest matrix instruction (64 rows a group of four warps): 128 rows, 8 warps.
* Products of codes have outputs on the side of the matrix instruction that takes 64 of them, from
  registers. With few rows a tile has 128 inputs of each. One row has 128 bytes of each of 64
  outputs: a thread reads 16 bytes of four, and spreads a value of the row over all four.
* fp32 has no matrix instruction that keeps its precision; its tiles are small.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_SHIPPED = Path(__file__).parent / "blocks.json"


@dataclass(frozen=True, slots=True)
class Blocks:
    """A tile and how it is computed.

    Attributes:
        rows: Rows of the product's left side; tokens times heads in attention.
        columns: Tokens of keys and values in attention; outputs in a product.
        inner: Terms that a product sums at once; 0 in attention, which takes a whole head.
        warps: Groups of 32 threads.
        stages: Tiles under way at a time.
    """

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel and operands to choose a tile for.

    Attributes:
        kernel: Name of the kernel's file, behind `grouped_` where its rows are sorted by expert.
        width: D in attention, rounded up to a power of two; a bound of the rows of a product, or
            of an expert's: 16, 64 or 128.
        bits: Bits of a value; of a code in products with codes, but 32 if the rows have so many.
        capability: Compute capability, `90` for Hopper; 0 under the interpreter.
        coded: Whether keys and values are codes, for which nothing was measured yet.
    """

    kernel: str
    width: int
    bits: int
    capability: int
    coded: bool = False


class Table:
    """Measured tiles by case; `default` for the others."""

    def __init__(self, measured: dict[Case, Blocks] | None = None) -> None:
        self._measured = dict(measured or {})

    def find(self, case: Case) -> Blocks:
        """The tile of a case."""
        return self._measured.get(case) or default(case)

    def with_more(self, other: Table) -> Table:
        """Both tables; an entry of the other one goes first."""
        return Table({**self._measured, **other._measured})

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Table:
        """A table of what `entries` gives."""
        return cls({Case(**one["case"]): Blocks(**one["blocks"]) for one in entries})

    def entries(self) -> list[dict[str, Any]]:
        """Every measured tile as data of JSON."""
        return [
            {"case": asdict(case), "blocks": asdict(blocks)}
            for case, blocks in self._measured.items()
        ]


def shipped() -> Table:
    """The tiles that are shipped."""
    return Table.of(json.loads(_SHIPPED.read_text("utf-8")))


def cached() -> Path:
    """The file of this machine's own measurements."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"  # as XDG says
    return root / "agentrt" / "blocks.json"


def default(case: Case) -> Blocks:
    """A tile that compiles everywhere and is reasoned for Hopper (see above)."""
    if case.kernel == "grouped_gemm":
        if case.bits == 32:
            return Blocks(rows=min(case.width, 32), columns=32, inner=32, warps=4, stages=2)
        warps = 8 if case.width >= 128 else 4
        return Blocks(rows=case.width, columns=128, inner=64, warps=warps, stages=4)
    if case.kernel == "dequantised_gemv":
        return Blocks(rows=1, columns=64, inner=128, warps=4, stages=4)
    if case.kernel.endswith(("dequantised_gemm", "fp8_gemm")):
        return _of_codes(case)
    if case.bits == 32:
        columns = 32 if case.width <= 128 else 16
        return Blocks(rows=32, columns=columns, inner=0, warps=4, stages=2)
    columns = 64 if case.width <= 128 else 32
    if case.kernel == "paged_decode":
        return Blocks(rows=16, columns=columns, inner=0, warps=4, stages=5)
    if case.kernel == "shared_prefix":
        return Blocks(rows=64, columns=columns, inner=0, warps=4, stages=5)
    return Blocks(rows=128, columns=columns, inner=0, warps=8, stages=5)


def _of_codes(case: Case) -> Blocks:
    if case.bits == 32:
        return Blocks(rows=min(case.width, 32), columns=32, inner=32, warps=4, stages=2)
    if case.width <= 16:
        return Blocks(rows=16, columns=64, inner=64 if case.bits == 4 else 128, warps=4, stages=4)
    # Of four bits a tile holds twice as many inputs as it has bytes of an output.
    inner = 32 if case.bits == 4 else 64
    if case.kernel.endswith("fp8_gemm"):
        inner = 128
    if case.width <= 64:
        return Blocks(rows=64, columns=64, inner=inner, warps=4, stages=4)
    return Blocks(rows=128, columns=128, inner=inner, warps=8, stages=3)


def block_for(count: int) -> int:
    """A power of two that holds `count`, of few that there are: each is compiled for itself."""
    return max(64, 1 << (count - 1).bit_length())


def row_warps(width: int) -> int:
    """Warps for a program that holds one row: eight values a thread."""
    return min(16, max(1, width // 256))
