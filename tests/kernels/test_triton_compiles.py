"""The real compiler takes every kernel, for Hopper, with no GPU at hand."""

import json
import os
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed (pip install agentrt[gpu])")

MOST_SHARED_BYTES = 227 * 1024
ATTENTION = {"_paged_decode", "_paged_extend", "_shared_prefix"}
ROUTES = {"_route", "_weighted_sum"}
IN_STEPS = ATTENTION | ROUTES | {"_merge", "_rms_norm", "_gate_mul", "_rope_store"}
"""Kernels that may be launched before the one before them has ended, and have to wait for it."""
SAMPLER = {"_scale", "measure", "gather", "_choose"}
PRODUCTS = {"_dequantised_gemm", "_dequantised_gemv", "_fp8_gemm", "_e4m3_rows", "_sum_parts"}
OTHERS = {"_merge", "_rms_norm", "_gate_mul", "_rope_store", "_copy_pages"} | SAMPLER


@pytest.mark.slow
@pytest.mark.parametrize("width", [64, 128], ids=["tiles by rule", "tiles that were measured"])
def test_every_kernel_compiles_for_hopper(width: int) -> None:
    script = Path(__file__).parent / "compile_ahead.py"
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(script), f"{width}"],
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    used, coded = told["plain"], told["coded"]
    of_hopper = {"_hopper_extend"} if width == 128 else set()
    assert set(used) == ATTENTION | OTHERS | ROUTES | {"_grouped_gemm"} | of_hopper
    for name, kernel in used.items():
        assert kernel["shared_bytes"] <= MOST_SHARED_BYTES, name
        assert kernel["stack_bytes"] <= (64 if width == 128 else 0), f"{name} spills"
    assert {name for name, kernel in used.items() if kernel["waits"] == 1} == IN_STEPS
    for name in ATTENTION | {"_grouped_gemm"} | of_hopper:
        assert used[name]["matrix_instructions"] > 0, name
        assert used[name]["async_copies"] > 0, f"{name} waits for each of its loads"
    check_quantised(told["quantised"])
    check_quantised(told["experts"], apart={"_sum_parts", "_dequantised_gemv"})
    for kind, kernels in coded.items():
        check_coded(kind, kernels)


def check_coded(kind: str, used: dict[str, dict[str, int]]) -> None:
    """What reads or writes keys and values that are codes."""
    assert used.keys() >= ATTENTION | {"_rope_store"}
    for name, kernel in used.items():
        assert kernel["shared_bytes"] <= MOST_SHARED_BYTES, f"{name} of {kind}"
        assert kernel["stack_bytes"] <= 64, f"{name} of {kind} spills"
    for name in ATTENTION:
        assert used[name]["matrix_instructions"] > 0, f"{name} of {kind}"
        assert used[name]["async_copies"] > 0, f"{name} of {kind} waits for each of its loads"
        assert (used[name]["fp8_conversions"] > 0) == (kind == "fp8"), f"{name} of {kind}"


def check_quantised(used: dict[str, dict[str, int]], apart: Set[str] = frozenset()) -> None:
    """Products with codes: of each kind, with few rows and many, split among programs and not."""
    assert {name.split(maxsplit=1)[0] for name in used} == PRODUCTS - apart
    for name, kernel in used.items():
        assert kernel["shared_bytes"] <= MOST_SHARED_BYTES, name
        assert kernel["stack_bytes"] == 0, f"{name} spills"
        if not name.startswith(("_sum_parts", "_e4m3_rows")):
            by_matrix = not name.startswith("_dequantised_gemv")
            assert (kernel["matrix_instructions"] > 0) == by_matrix, name
            assert kernel["async_copies"] > 0, f"{name} waits for each of its loads"
            assert by_matrix or kernel["flushes"] == 0, f"{name} takes small codes for zero"
            in_floats = kernel["fp8_instructions"] > 0
            assert in_floats == name.startswith("_fp8_gemm"), f"{name} multiplies another type"
