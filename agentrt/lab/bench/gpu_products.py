"""Products with quantised weights in the GPU check, beside those with plain ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import geometric_mean
from typing import Any

_FAMILIES = {
    "products": ("torch_mm", "dequantised_gemv", "dequantised_gemm", "fp8_gemm"),
    "experts": ("grouped_gemm", "grouped_dequantised_gemm", "grouped_fp8_gemm"),
}
"""Kernels by the first word of their figures; the first of them multiplies by plain weights."""
_PLAIN = "plain"


def product_figures(speeds: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How many times as fast products with codes are, by kind and rows, and those of experts.

    A figure is a geometric mean over the shapes of matrices. Speeds with an error count nothing.

    Args:
        speeds: Speeds of kernels, as `python -m agentrt_kernels.check` prints them.

    Example:
        >>> plain = {"kernel": "torch_mm", "work": "1 rows, 8 x 8, plain", "median_s": 3.0}
        >>> codes = {"kernel": "fp8_gemm", "work": "1 rows, 8 x 8, fp8", "median_s": 2.0}
        >>> product_figures([plain, codes])
        {'products.fp8.1 rows.times_plain': 1.5}
    """
    known = [one for one in speeds if "median_s" in one]
    figures: dict[str, float] = {}
    for family, kernels in _FAMILIES.items():
        took = {one["work"]: float(one["median_s"]) for one in known if one["kernel"] in kernels}
        figures |= {
            f"{family}.{kind}.{rows}.times_plain": geometric_mean(each)
            for (kind, rows), each in _times_plain(took).items()
        }
    return figures


def _times_plain(took: Mapping[str, float]) -> Mapping[tuple[str, str], list[float]]:
    """Seconds with plain weights over those with codes, by kind and rows, of each shape."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for work, seconds in took.items():
        rows, size, kind = work.split(", ", 2)
        plain = took.get(f"{rows}, {size}, {_PLAIN}")
        if kind != _PLAIN and plain is not None:
            times[kind, rows].append(plain / seconds)
    return times
