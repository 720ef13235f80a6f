"""Compile every Triton kernel for Hopper on a machine without a GPU; a script, for its own process.

Triton compiles for any target, down to machine code. What stands between is its driver, which asks
the machine what it is; here one that answers "compute capability 9.0" takes its place, and launches
stop before they reach a device. Prints what each kernel would use, as JSON.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from agentrt_kernels.check.stored import KINDS, stored
from agentrt_kernels.contract import HeadNorms, PagedRows, Score, SharedPrefix
from agentrt_kernels.kv_codes import CODE_DTYPES
from agentrt_kernels.routes import RouteRule
from agentrt_kernels.triton import dependent_launch, e4m3, fp8_gemm
from agentrt_kernels.triton import set as chosen
from agentrt_kernels.triton.set import TritonKernels

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
USED: dict[str, dict[str, object]] = {}


class Hopper:
    """A driver of a device that is not here."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_only(run):
    def compiled(self, *args, grid, warmup, **options):
        made = run(self, *args, grid=grid, warmup=True, **options)
        ptx = made.asm["ptx"]
        USED[self.fn.__name__] = {
            "shared_bytes": made.metadata.shared,
            "matrix_instructions": ptx.count("wgmma.mma") + ptx.count("mma.sync"),
            "fp8_instructions": len(re.findall(r"(?:wgmma|mma)\.\S*\.e4m3", ptx)),
            "fp8_conversions": len(re.findall(r"cvt\.\S*\.e4m3", ptx)),
            "async_copies": ptx.count("cp.async.cg") + ptx.count("cp.async.bulk.tensor"),
            "flushes": ptx.count(".ftz"),
            "waits": ptx.count("griddepcontrol.wait"),
            **resources(made.asm["cubin"]),
        }
        return made

    return compiled


def resources(cubin: bytes) -> dict[str, int]:
    """Registers of a thread, and bytes of its stack, where what does not fit them goes."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "-res-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", told)
    assert found, told
    return {"registers": int(found[1]), "stack_bytes": int(found[2])}


def whole(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def call_all(dtype: torch.dtype, heads: int, kv_heads: int, width: int) -> None:
    """Every operation once, on operands that are never read."""
    kernels, page, hidden = TritonKernels(), 16, heads * width
    pages = torch.empty(4, 2, page, kv_heads, width, dtype=dtype)
    table = torch.zeros(4, 64, dtype=torch.int32)
    prefix = SharedPrefix(whole(0, 4), whole(0, 1, 2, 3), whole(256), table[:1], 64)
    query = torch.empty(512, heads, width, dtype=dtype)
    decode = PagedRows(whole(0, 1, 2, 3, 4), whole(*[1000] * 4), table, 1, 1024, prefix)
    mixed = PagedRows(whole(0, 1, 2, 3, 512), whole(*[1000] * 4), table, 512, 1024)
    for rows in (decode, mixed):
        kernels.attend(query, pages, rows, Score(0.1), query)
    kernels.attend(query, pages, mixed, Score(0.1, window=100), query)  # on every capability
    x, weight = torch.empty(4, hidden, dtype=dtype), torch.empty(width, dtype=dtype)
    kernels.add_rms_norm(x, x, torch.empty(hidden, dtype=dtype), 1e-6, x)
    kernels.gate_mul(torch.empty(4, 2 * hidden, dtype=dtype), x)
    slots = torch.zeros(4, dtype=torch.int64)
    qkv = torch.empty(4, heads + 2 * kv_heads, width, dtype=dtype)
    norms = HeadNorms(weight, weight, 1e-6)
    kernels.rope_store(qkv, slots, torch.empty(9, width), slots, norms, pages, query[:4])
    for rows_of_experts in (4, 1024):
        left = torch.empty(rows_of_experts, hidden, dtype=dtype)
        right = torch.empty(8, hidden, hidden, dtype=dtype)
        kernels.grouped_linear(left, right, whole(*[0] * 9), left.clone())
    routes = kernels.route(torch.empty(64, 128, dtype=dtype), RouteRule(8, True, True))
    made = torch.empty(512, hidden, dtype=dtype)
    kernels.sum_choices(made, routes.order, routes.shares, made[:64])
    kernels.copy_pages(pages.flatten(1), pages.flatten(1), torch.zeros(2, 2, dtype=torch.int64))
    heat = torch.zeros(4)
    mask = torch.zeros(4, 4008, dtype=torch.int32)
    logits = torch.empty(4, 128_256)
    kernels.sample(logits, mask, heat, heat.int(), heat, heat, heat.double(), slots)


def call_coded(kind: torch.dtype, heads: int, kv_heads: int, width: int) -> None:
    """Every operation that reads or writes keys and values once, over codes, in bf16."""
    dtype = torch.bfloat16
    kernels, page = TritonKernels(), 16
    codes = torch.empty(4, 2, page, kv_heads, width, dtype=kind)
    scales = torch.empty(4, 2, kv_heads, page, dtype=torch.bfloat16)
    table = torch.zeros(4, 64, dtype=torch.int32)
    prefix = SharedPrefix(whole(0, 4), whole(0, 1, 2, 3), whole(256), table[:1], 64)
    query = torch.empty(512, heads, width, dtype=dtype)
    decode = PagedRows(whole(0, 1, 2, 3, 4), whole(*[1000] * 4), table, 1, 1024, prefix)
    mixed = PagedRows(whole(0, 1, 2, 3, 512), whole(*[1000] * 4), table, 512, 1024)
    for rows in (decode, mixed):
        kernels.attend(query, codes, rows, Score(0.1), query, scales)
    slots = torch.zeros(4, dtype=torch.int64)
    qkv = torch.empty(4, heads + 2 * kv_heads, width, dtype=dtype)
    kernels.rope_store(qkv, slots, torch.empty(9, width), slots, None, codes, query[:4], scales)


def call_quantised(dtype: torch.dtype, outputs: int, width: int) -> dict[str, dict[str, object]]:
    """Products with each kind of codes, of few rows and of many; what each would use by name."""
    kernels = TritonKernels()
    told: dict[str, dict[str, object]] = {}
    bias = torch.empty(outputs, dtype=dtype)
    for kind in KINDS:
        linear = kernels.pack_codes(stored(kind, outputs, width, torch.device("cpu")), bias)
        for rows in (1, 16, 64, 2048):
            USED.clear()
            linear.apply(torch.empty(rows, width, dtype=dtype))
            told |= {f"{kernel} of {kind}, {rows} rows": used for kernel, used in USED.items()}
    return told


def call_experts(dtype: torch.dtype, outputs: int, width: int) -> dict[str, dict[str, object]]:
    """The same with two experts, each of which has half of the rows; in one launch each."""
    kernels = TritonKernels()
    told: dict[str, dict[str, object]] = {}
    biases = torch.empty(2, outputs, dtype=dtype)
    for kind in KINDS:
        weights = [stored(kind, outputs, width, torch.device("cpu"), seed) for seed in range(2)]
        experts = kernels.pack_expert_codes(weights, biases)
        for rows in (2, 64, 2048):
            USED.clear()
            x, out = torch.empty(rows, width, dtype=dtype), torch.empty(rows, outputs, dtype=dtype)
            experts.apply(x, whole(0, rows // 2, rows), out)
            told |= {f"{kernel} of {kind}, {rows} rows": used for kernel, used in USED.items()}
    return told


if __name__ == "__main__":
    driver.set_active(Hopper())
    # Tiles, launches that overlap, and matrix units of FP8.
    for module in (dependent_launch, chosen, e4m3, fp8_gemm):
        vars(module)["capability"] = lambda device: 90
    vars(chosen)["_multiprocessors"] = lambda device: 132
    JITFunction.run = compile_only(JITFunction.run)
    call_all(torch.bfloat16, 8, 2, int(sys.argv[1]))
    plain = dict(USED)
    coded = {}
    for name, kind in CODE_DTYPES.items():
        USED.clear()
        call_coded(kind, 8, 2, int(sys.argv[1]))
        coded[name] = dict(USED)
    quantised = call_quantised(torch.bfloat16, 4096, 4096)
    experts = call_experts(torch.bfloat16, 4096, 4096)
    told = {"plain": plain, "coded": coded, "quantised": quantised, "experts": experts}
    print(json.dumps(told))
