"""Compilation of the CPU kernels ahead of an engine's start, for this machine or for an image."""

from __future__ import annotations

from pathlib import Path

from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu.build import cache_folder, compiled
from agentrt_kernels.cpu.processor import LEVELS, NATIVE, level_target, native_target


def build_kernels(processor: str, folder: Path | None) -> Path:
    """Compile the kernels also if they are there; returns the library's path.

    Args:
        processor: "native", or a level of x86-64 that every target processor has.
        folder: Folder of the library, for `$AGENTRT_KERNELS`; None is the user's cache.

    Raises:
        UsageError: There is no such processor.
        EngineUnavailable: There is no compiler, it failed, or the folder is not safe to use.
    """
    if processor not in (NATIVE, *LEVELS):
        raise UsageError(f"no processor {processor!r}", hint=f"use {NATIVE}, {', '.join(LEVELS)}")
    target = native_target() if processor == NATIVE else level_target(processor)
    try:
        return compiled(target, cache_folder() if folder is None else folder, anew=True)
    except KernelsUnavailable as error:
        raise EngineUnavailable(
            str(error), hint="Install a C++ compiler (g++ or clang++), or name one by $CXX"
        ) from error
