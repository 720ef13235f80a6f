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
        flags: Flags of the compiler.
        features: Features that distinguish processors under the same flags; a level's own name.
    """

    name: str
    flags: tuple[str, ...]
    features: str


SLOW_BF16_DOT = "-DSLOW_BF16_DOT"
"""Flag for processors whose dot product of bf16 pairs takes longer than two products in fp32."""


def native_target() -> Target:
    """The processor at hand, with all that it has."""
    on_x86 = platform.machine() in ("x86_64", "i686", "AMD64")
    flags = ["-march=native" if on_x86 else "-mcpu=native"]
    if _cpuinfo("vendor_id") == "GenuineIntel":
        flags.append(SLOW_BF16_DOT)
    return Target(NATIVE, tuple(flags), processor_features())


def level_target(name: str) -> Target:
    """A level by its name.

    Example:
        >>> level_target("x86-64-v3").flags
        ('-march=x86-64-v3',)

    Raises:
        KeyError: There is no such level.
    """
    LEVELS[name]
    return Target(name, (f"-march={name}",), name)


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
    return _cpuinfo("flags", "Features") or platform.processor()


def _cpuinfo(*names: str) -> str:
    """The first processor as the system lists it, under one of `names`; empty if it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in names:
                    return value.strip()
    except OSError:
        pass
    return ""
