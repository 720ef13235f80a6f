"""Processors that the native code is compiled for: the one at hand, or a level that many share."""

from __future__ import annotations

import platform
from dataclasses import dataclass

NATIVE = "native"
_V3 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"))
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3}
"""Levels of the x86-64 psABI, best first, and the features in /proc/cpuinfo that each needs."""


@dataclass(frozen=True)
class Target:
    """Processors that run a library.

    Attributes:
        name: "native", or a level.
        flag: Flag of the compiler.
        features: Features that distinguish processors under one flag; a level's own name.
    """

    name: str
    flag: str
    features: str


def native_target() -> Target:
    """The processor at hand, with all that it has."""
    on_x86 = platform.machine() in ("x86_64", "i686", "AMD64")
    return Target(NATIVE, "-march=native" if on_x86 else "-mcpu=native", processor_features())


def level_target(name: str) -> Target:
    """A level by its name.

    Example:
        >>> level_target("x86-64-v3").flag
        '-march=x86-64-v3'

    Raises:
        KeyError: There is no such level.
    """
    LEVELS[name]
    return Target(name, f"-march={name}", name)


def runnable_levels(features: str) -> tuple[Target, ...]:
    """The levels that a processor with these features runs, best first.

    Example:
        >>> runnable_levels("sse2 avx")
        ()
    """
    present = frozenset(features.split())
    return tuple(level_target(name) for name, needed in LEVELS.items() if needed <= present)


def processor_features() -> str:
    """Features of the processor as the system lists them: a home may be shared by machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(("flags", "Features")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
