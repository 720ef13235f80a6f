"""How long work takes, and what this device can do at best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import torch

from agentrt_kernels.check.work import Work
from agentrt_kernels.contract import Kernels

REPEATS = 9


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates that this device reached in this run.

    Attributes:
        read_bytes_per_s: Rate of a sum over far more than its cache holds.
        flops_per_s: Rate of a product of two large square bf16 matrices, random values.
    """

    read_bytes_per_s: float
    flops_per_s: float


def seconds_of(work: Work, kernels: Kernels, device: torch.device) -> list[float]:
    """Samples of the time of one round: all rounds as one captured graph, launch costs left out."""

    def rounds() -> None:
        for at in range(work.rounds):
            work.call(kernels, at)

    return [sample / work.rounds for sample in timed(rounds, device)]


def timed(call: Callable[[], None], device: torch.device, repeats: int = REPEATS) -> list[float]:
    """Seconds of each of `repeats` calls, after one that is not counted."""
    call()
    if device.type != "cuda":
        return [_elapsed(call) for _ in range(repeats)]
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    marks = [_mark() for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize(device)
    return [first.elapsed_time(second) / 1000 for first, second in pairwise(marks)]


def ceilings(device: torch.device, *, values: int = 2**31, side: int = 8192) -> Ceilings:
    """Measured now.

    Args:
        device: The device.
        values: bf16 values that are summed.
        side: Side of the matrices.
    """
    many = torch.ones(values, dtype=torch.bfloat16, device=device)
    found = torch.empty((), dtype=torch.float32, device=device)
    left, right = (torch.randn(side, side, device=device).bfloat16() for _ in range(2))
    product = torch.empty_like(left)
    read = timed(lambda: _sum(many, found), device)
    multiply = timed(lambda: _product(left, right, product), device)
    return Ceilings(2 * values / min(read), 2 * side**3 / min(multiply))


def _sum(many: torch.Tensor, found: torch.Tensor) -> None:
    torch.sum(many, dim=0, dtype=torch.float32, out=found)


def _product(left: torch.Tensor, right: torch.Tensor, product: torch.Tensor) -> None:
    torch.mm(left, right, out=product)


def _mark() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _elapsed(call: Callable[[], None]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began
