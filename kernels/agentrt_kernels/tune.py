"""Measure tiles and write the table: `python -m agentrt_kernels.tune [--out FILE]`.

Each candidate is held to the reference before it is timed; one that does not compile here, or needs
more than a multiprocessor has, is dropped. Without `--out` the table goes to the cache directory
from which this machine's engine reads it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product, starmap
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
        case: The case.
        candidates: Tiles to try.
        work: Makes the work to time.
        difference: The largest error, as a share of what is allowed.
    """

    case: Case
    candidates: tuple[Blocks, ...]
    work: Callable[[], Work]
    difference: Callable[[Kernels], float]


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a trial.

    Attributes:
        case: The case.
        blocks: The fastest tile that is right; the default if none is.
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
    dtype, at = torch.bfloat16, capability(device)
    attend = partial(difference.attend, device=device)
    multiply = partial(
        difference.grouped_linear, outputs=512, width=1024, dtype=dtype, device=device
    )
    for width in _WIDTHS:
        heads = Heads(width=width)
        batch = partial(Attention, heads=32, kv_heads=8, width=width, dtype=dtype)
        yield Trial(
            Case("paged_decode", width, 16, at),
            _tiles((16,), (32, 64, 128), (2, 4, 8), (3, 5, 7)),
            partial(work.decode, 32, 4096, heads, dtype, device),
            partial(attend, case=batch((1000, 37), (1, 1))),
        )
        yield Trial(
            Case("paged_extend", width, 16, at),
            _tiles((64, 128), (32, 64, 128), (4, 8), (3, 5)),
            partial(work.extend, 2, 4096, 0, heads, dtype, device),
            partial(attend, case=batch((300, 0), (130, 257))),
        )
        yield Trial(
            Case("shared_prefix", width, 16, at),
            _tiles((32, 64, 128), (32, 64), (4, 8), (3, 5)),
            partial(work.siblings, 64, 8192, 128, heads, dtype, device),
            partial(attend, case=batch((900, 901), (1, 1), groups=(((0, 1), 896),))),
        )
    # `rows` are such that the set takes the case that is being tuned.
    for bound, rows in ((16, 32), (64, 256), (128, 2048)):
        yield Trial(
            Case("grouped_gemm", bound, 16, at),
            _tiles((bound,), (64, 128), (4, 8), (3, 4), inner=(64, 128)),
            partial(work.experts, rows, 8, 14336, 4096, dtype, device),
            partial(multiply, sizes=(rows // 8,) * 8),
        )


def _tiles(
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    warps: tuple[int, ...],
    stages: tuple[int, ...],
    inner: tuple[int, ...] = (0,),
) -> tuple[Blocks, ...]:
    return tuple(starmap(Blocks, product(rows, columns, inner, warps, stages)))


def main(arguments: list[str]) -> int:
    """Tune on this machine's GPU; 2 if there is none."""
    parser = argparse.ArgumentParser(prog="python -m agentrt_kernels.tune", description=__doc__)
    parser.add_argument("--out", type=Path, default=cached(), help="file of the table")
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
