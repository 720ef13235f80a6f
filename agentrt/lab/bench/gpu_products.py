"""Products with quantised weights in the GPU check, beside torch's with plain ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import geometric_mean
from typing import Any

_KERNELS = ("dequantised_gemm", "fp8_gemm")
_PLAIN = "plain"


def product_figures(speeds: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How many times as fast products with codes are, by kind and rows.

    A figure is a geometric mean over the shapes of matrices. Speeds with an error count nothing.

    Args:
        speeds: Speeds of kernels, as `python -m agentrt_kernels.check` prints them.

    Example:
        >>> plain = {"kernel": "torch_mm", "work": "1 rows, 8 x 8, plain", "median_s": 3.0}
        >>> codes = {"kernel": "fp8_gemm", "work": "1 rows, 8 x 8, fp8", "median_s": 2.0}
        >>> product_figures([plain, codes])
        {'products.fp8.1 rows.times_plain': 1.5}
    """
    took = {
        one["work"]: float(one["median_s"])
        for one in speeds
        if one["kernel"] in (*_KERNELS, "torch_mm") and "median_s" in one
    }
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for work, seconds in took.items():
        rows, size, kind = work.split(", ", 2)
        plain = took.get(f"{rows}, {size}, {_PLAIN}")
        if kind != _PLAIN and plain is not None:
            times[kind, rows].append(plain / seconds)
    return {
        f"products.{kind}.{rows}.times_plain": geometric_mean(each)
        for (kind, rows), each in times.items()
    }
