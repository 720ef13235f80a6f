"""Measure tiles and write the table: `python -m agentrt_kernels.tune [--out FILE]`.

Each candidate is held to the reference before it is timed; one that does not compile here, or asks
for more than a multiprocessor has, is dropped. Without `--out` the table goes where this machine's
engine reads it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import torch

from agentrt_kernels.check import difference, work
from agentrt_kernels.check.batch import Attention
from agentrt_kernels.check.timing import seconds_of
from agentrt_kernels.check.work import Heads, Work
from agentrt_kernels.contract import Kernels
from agentrt_kernels.triton.blocks import Blocks, Case, Table, cached, default
from agentrt_kernels.triton.set import TritonKernels, capability

Timer = Callable[[Work, Kernels, torch.device], list[float]]
_WIDTHS = (64, 128, 256)


@dataclass(frozen=True, slots=True)
class Trial:
    """A case to find a tile for.

    Attributes:
        case: It.
        candidates: Tiles to try.
        work: To time.
        difference: From the reference, as a share of what is allowed.
    """

    case: Case
    candidates: tuple[Blocks, ...]
    work: Callable[[], Work]
    difference: Callable[[Kernels], float]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a case ended with.

    Attributes:
        case: It.
        blocks: The fastest tile that is right; the default where none is.
        seconds: Median of each candidate that is right.
    """

    case: Case
    blocks: Blocks
    seconds: dict[Blocks, float]


def tune(
    trials: Iterator[Trial], device: torch.device, timer: Timer = seconds_of
) -> Iterator[Choice]:
    """The fastest tile of each trial, one after another."""
    for trial in trials:
        one = trial.work()
        seconds: dict[Blocks, float] = {}
        for blocks in trial.candidates:
            kernels = TritonKernels(Table({trial.case: blocks}))
            try:
                if trial.difference(kernels) <= 1:
                    seconds[blocks] = median(timer(one, kernels, device))
            except Exception as error:  # too large for this device, or not compiled by this Triton
                sys.stderr.write(f"{trial.case.kernel} {blocks}: {error}\n")
        best = min(seconds, key=lambda blocks: seconds[blocks], default=default(trial.case))
        yield Choice(trial.case, best, seconds)


def trials_of(device: torch.device) -> Iterator[Trial]:
    """Every kernel whose tile the table holds, in bf16 at the usual widths."""
    dtype, bits, at = torch.bfloat16, 16, capability(device)
    for width in _WIDTHS:
        heads = Heads(width=width)
        decode = Case("paged_decode", width, bits, at)
        extend = Case("paged_extend", width, bits, at)
        prefix = Case("shared_prefix", width, bits, at)
        plain = Attention((1000, 37), (1, 1), 32, 8, width, dtype=dtype)
        prompt = Attention((300, 0), (130, 257), 32, 8, width, dtype=dtype)
        shared = Attention((900, 901), (1, 1), 32, 8, width, dtype=dtype, groups=(((0, 1), 896),))
        yield Trial(
            decode,
            _tiles((16,), (32, 64, 128), (2, 4, 8), (3, 5, 7)),
            lambda heads=heads: work.decode(32, 4096, heads, dtype, device),  # type: ignore[misc]
            lambda kernels, case=plain: difference.attend(kernels, case, device),  # type: ignore[misc]
        )
        yield Trial(
            extend,
            _tiles((64, 128), (32, 64, 128), (4, 8), (3, 5)),
            lambda heads=heads: work.extend(2, 4096, 0, heads, dtype, device),  # type: ignore[misc]
            lambda kernels, case=prompt: difference.attend(kernels, case, device),  # type: ignore[misc]
        )
        yield Trial(
            prefix,
            _tiles((32, 64, 128), (32, 64), (4, 8), (3, 5)),
            lambda heads=heads: work.siblings(64, 8192, 128, heads, dtype, device),  # type: ignore[misc]
            lambda kernels, case=shared: difference.attend(kernels, case, device),  # type: ignore[misc]
        )
    yield from _products(dtype, device)


def _products(dtype: torch.dtype, device: torch.device) -> Iterator[Trial]:
    """`rows` are such that the set takes the case that is being tuned."""
    for bound, rows in ((16, 32), (64, 256), (128, 2048)):
        yield Trial(
            Case("grouped_gemm", bound, 16, capability(device)),
            tuple(
                Blocks(bound, columns, inner, warps, stages)
                for columns, inner, warps, stages in product((64, 128), (64, 128), (4, 8), (3, 4))
            ),
            lambda rows=rows: work.experts(rows, 8, 14336, 4096, dtype, device),  # type: ignore[misc]
            lambda kernels, rows=rows: difference.grouped_linear(  # type: ignore[misc]
                kernels, (rows // 8,) * 8, 512, 1024, dtype, device
            ),
        )


def _tiles(
    rows: tuple[int, ...], columns: tuple[int, ...], warps: tuple[int, ...], stages: tuple[int, ...]
) -> tuple[Blocks, ...]:
    return tuple(Blocks(r, c, 0, w, s) for r, c, w, s in product(rows, columns, warps, stages))


def main(arguments: list[str]) -> int:
    """Tune on this machine's GPU; 2 where there is none."""
    parser = argparse.ArgumentParser(prog="python -m agentrt_kernels.tune", description=__doc__)
    parser.add_argument("--out", type=Path, default=cached(), help="where the table goes")
    out: Path = parser.parse_args(arguments).out
    if not torch.cuda.is_available():
        sys.stderr.write("There is no CUDA device here; tiles are measured on one.\n")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    chosen: dict[Case, Blocks] = {}
    for choice in tune(trials_of(device), device):
        if choice.seconds:
            chosen[choice.case] = choice.blocks
            took = choice.seconds[choice.blocks]
            sys.stdout.write(f"{choice.case.kernel} {choice.case.width}: {choice.blocks} {took}\n")
            Table(chosen).write(out)
    sys.stdout.write(f"{len(chosen)} tiles in {out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
