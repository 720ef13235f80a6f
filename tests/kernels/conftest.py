"""The sets as tests run them; Triton interpreted, on tiles so small that all have edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.build import cache_folder, compiled
from agentrt_kernels.cpu.processor import SLOW_BF16_DOT, native_target, runnable_levels


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def interpreted():
    """`TritonKernels`, or a skip where there is no triton."""
    # The interpreter of older ones cannot loop up to a length that it has loaded, with numpy 2.4.
    pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")
    from agentrt_kernels.triton.blocks import Blocks, Case, Table
    from agentrt_kernels.triton.set import TritonKernels
    from agentrt_kernels.triton.tile import is_interpreted

    if not is_interpreted():
        pytest.skip("triton was imported before TRITON_INTERPRET was set")

    class SmallTiles(Table):
        def find(self, case: Case) -> Blocks:
            return Blocks(rows=16, columns=16, inner=16, warps=4, stages=2)

    return TritonKernels(SmallTiles())


@pytest.fixture(scope="module", params=[1, 3], ids=["alone", "three threads"])
def kernels(request):
    """`CpuKernels`, or a skip where nothing can compile it."""
    from agentrt_kernels.cpu.kernel_set import CpuKernels

    try:
        made = CpuKernels(request.param)
    except KernelsUnavailable as error:
        pytest.skip(str(error))
    yield made
    made.use_threads(1)


@pytest.fixture(scope="session")
def native():
    """The library for this processor, or a skip where nothing can compile it."""
    try:
        return c.native()
    except KernelsUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(
    scope="session",
    params=runnable_levels(native_target().features),
    ids=lambda level: level.name,
)
def level_library(request):
    """The library for each lesser processor that this one can stand for, or a skip."""
    try:
        return c.Native(compiled(request.param, cache_folder()))
    except KernelsUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def other_dot():
    """The library with dot products of bf16 if that of this processor has none, else without."""
    target = native_target()
    flags = {*target.flags} ^ {SLOW_BF16_DOT}
    try:
        return c.Native(compiled(replace(target, flags=tuple(sorted(flags))), cache_folder()))
    except KernelsUnavailable as error:
        pytest.skip(str(error))
