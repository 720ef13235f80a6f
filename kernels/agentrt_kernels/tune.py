"""Measure tiles and write the table: `python -m agentrt_kernels.tune [--out FILE]`.

Each candidate is held to the reference before it is timed; one that does not compile here, or needs
more than a multiprocessor has, is dropped. Several processes compile all of them first, which takes
longer than the rest. Without `--out` the table goes to the cache directory from which the engine of
this machine reads it, as long as its GPU, its Triton and the kernels stay what they are.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, product, starmap
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, median

import torch

from agentrt_kernels.check import difference, work
from agentrt_kernels.check import expert_product as check_experts
from agentrt_kernels.check import product as check_product
from agentrt_kernels.check.batch import Attention
from agentrt_kernels.check.timing import seconds_of
from agentrt_kernels.check.work import Heads, Work
from agentrt_kernels.contract import Kernels
from agentrt_kernels.triton.blocks import Blocks, Case, Table, cached, default
from agentrt_kernels.triton.dependent_launch import capability
from agentrt_kernels.triton.set import TritonKernels
from agentrt_kernels.triton.tile_file import origin_here, write_tiles

Timer = Callable[[Work, Kernels, torch.device], list[float]]
_WIDTHS = (64, 128, 256)
PRODUCTS = (
    ("dequantised_gemm", 4, "int4 in groups"),
    ("dequantised_gemm", 8, "int8"),
    ("fp8_gemm", 8, "fp8 by fp8"),
)
"""Kernels that multiply by codes, bits of a code, and the kind that their tiles are measured on."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A case to find a tile for.

    Attributes:
        case: The case.
        candidates: Tiles to try.
        works: Make the pieces of work to time; the product of their times decides.
        difference: The largest error, as a share of what is allowed.
    """

    case: Case
    candidates: tuple[Blocks, ...]
    works: tuple[Callable[[], Work], ...]
    difference: Callable[[Kernels], float]


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a trial.

    Attributes:
        case: The case.
        blocks: The fastest tile that is right; the default if none is.
        seconds: Geometric mean of the medians of each candidate that is right.
    """

    case: Case
    blocks: Blocks
    seconds: dict[Blocks, float]


def tune(
    trials: Iterator[Trial], device: torch.device, timer: Timer = seconds_of
) -> Iterator[Choice]:
    """The fastest tile of each trial, one after another."""
    for trial in trials:
        works = [make() for make in trial.works]
        seconds: dict[Blocks, float] = {}
        for blocks in trial.candidates:
            kernels = TritonKernels(Table({trial.case: blocks}))
            try:
                if trial.difference(kernels) <= 1:
                    medians = [median(timer(one, kernels, device)) for one in works]
                    seconds[blocks] = geometric_mean(medians)
            except Exception as error:  # too large for this device, or not compiled by this Triton
                sys.stderr.write(f"{trial.case.kernel} {blocks}: {error}\n")
        best = min(seconds, key=lambda blocks: seconds[blocks], default=default(trial.case))
        yield Choice(trial.case, best, seconds)


def compile_all(device: torch.device, processes: int) -> None:
    """Compile every candidate into Triton's cache, so that `tune` finds it there."""
    sizes = [len(trial.candidates) for trial in trials_of(device)]
    jobs = [(number, at) for number, count in enumerate(sizes) for at in range(count)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(_compile, device), jobs, chunksize=4))


def _compile(device: torch.device, job: tuple[int, int]) -> None:
    number, at = job
    trial = next(islice(trials_of(device), number, None))
    kernels = TritonKernels(Table({trial.case: trial.candidates[at]}))
    with suppress(Exception):  # `tune` comes upon it again, and says so
        trial.difference(kernels)
        for make in trial.works:
            make().call(kernels, 0)
        torch.cuda.synchronize(device)


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
            tuple(
                partial(work.decode, sequences, context, heads, dtype, device)
                for sequences, context in ((1, 1024), (32, 1024), (64, 8192))
            ),
            partial(attend, case=batch((1000, 37), (1, 1))),
        )
        yield Trial(
            Case("paged_extend", width, 16, at),
            _tiles((64, 128), (32, 64, 128), (4, 8), (2, 3, 5)),
            tuple(
                partial(work.extend, sequences, new, before, heads, dtype, device)
                for sequences, new, before in ((1, 4096, 0), (4, 2048, 0), (1, 512, 8192))
            ),
            partial(attend, case=batch((300, 0), (130, 257))),
        )
        yield Trial(
            Case("shared_prefix", width, 16, at),
            _tiles((64, 128), (32, 64, 128), (4, 8), (3, 5)),
            tuple(
                partial(work.siblings, members, shared, 256, heads, dtype, device)
                for members, shared in ((64, 8192), (16, 4096))
            ),
            partial(attend, case=batch((900, 901), (1, 1), groups=(((0, 1), 896),))),
        )
    # `rows` are such that the set takes the case that is being tuned.
    for bound, rows in ((16, 32), (64, 256), (128, 2048)):
        yield Trial(
            Case("grouped_gemm", bound, 16, at),
            _tiles((bound,), (64, 128), (4, 8), (3, 4), inner=(64, 128)),
            (partial(work.experts, rows, 8, 14336, 4096, dtype, device),),
            partial(multiply, sizes=(rows // 8,) * 8),
        )
    for bound, rows in ((16, 32), (64, 192), (128, 2048)):
        for kernel, bits, kind in PRODUCTS:
            yield Trial(
                Case(f"grouped_{kernel}", bound, bits, at),
                _tiles((bound,), (64, 128), (4, 8), (3, 4), inner=(32, 64, 128)),
                (partial(check_experts.expert_product, kind, rows, 8, 14336, 4096, dtype, device),),
                partial(
                    check_experts.expert_product_difference,
                    kind=kind,
                    sizes=(rows // 8,) * 8,
                    outputs=520,
                    inputs=1024,
                    dtype=dtype,
                    device=device,
                ),
            )
    for bits, kind in ((4, "int4 in groups"), (8, "int8")):
        yield Trial(
            Case("dequantised_gemv", 16, bits, at),
            _tiles((1,), (16, 32, 64, 128), (2, 4, 8), (2, 4, 6), inner=(64, 128, 256)),
            tuple(
                partial(check_product.product, kind, 1, outputs, width, dtype, device)
                for outputs, width in ((4096, 4096), (28672, 4096))
            ),
            partial(
                check_product.product_difference,
                kind=kind,
                rows=1,
                outputs=520,
                inputs=1024,
                dtype=dtype,
                device=device,
            ),
        )
    for bound, some_rows in ((16, (2, 16)), (64, (64,)), (128, (2048,))):
        for kernel, bits, kind in PRODUCTS:
            yield Trial(
                Case(kernel, bound, bits, at),
                _tiles((bound,), (64, 128), (4, 8), (3, 4, 5), inner=(32, 64, 128)),
                tuple(
                    partial(check_product.product, kind, rows, outputs, width, dtype, device)
                    for rows in some_rows
                    for outputs, width in ((4096, 4096), (28672, 4096))
                ),
                partial(
                    check_product.product_difference,
                    kind=kind,
                    rows=some_rows[0],
                    outputs=520,
                    inputs=1024,
                    dtype=dtype,
                    device=device,
                ),
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
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="that compile at once"
    )
    given = parser.parse_args(arguments)
    out: Path = given.out
    if not torch.cuda.is_available():
        sys.stderr.write("There is no CUDA device here; tiles are measured on one.\n")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    compile_all(device, given.processes)
    chosen: dict[Case, Blocks] = {}
    for choice in tune(trials_of(device), device):
        if choice.seconds:
            chosen[choice.case] = choice.blocks
            took = choice.seconds[choice.blocks]
            sys.stdout.write(f"{choice.case.kernel} {choice.case.width}: {choice.blocks} {took}\n")
            write_tiles(out, Table(chosen), origin_here())
    sys.stdout.write(f"{len(chosen)} tiles in {out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
