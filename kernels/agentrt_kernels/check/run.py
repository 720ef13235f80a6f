"""The whole check: every operation against the reference, and the time of each against ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import product as product_of
from statistics import median
from typing import Any, Literal

import torch

from agentrt_kernels import load
from agentrt_kernels.check import difference, work
from agentrt_kernels.check.batch import Attention, batch_of
from agentrt_kernels.check.expert_product import expert_product, expert_product_difference
from agentrt_kernels.check.product import plain_product, product, product_difference
from agentrt_kernels.check.routing import (
    route_difference,
    routing_work,
    sum_difference,
    sum_work,
)
from agentrt_kernels.check.stored import KINDS
from agentrt_kernels.check.timing import Ceilings, ceilings, seconds_of
from agentrt_kernels.check.work import Heads, Work
from agentrt_kernels.contract import Kernels, KernelsUnavailable
from agentrt_kernels.kv_codes import CODE_DTYPES
from agentrt_kernels.reference import Reference
from agentrt_kernels.routes import RouteRule

Check = tuple[str, str, Callable[[], float]]
_HALVES = (torch.bfloat16, torch.float16)


def run(device: torch.device | str, kernels: Kernels | None = None) -> dict[str, Any]:
    """Facts about a set on a device, as plain data.

    Args:
        device: Where. On the CPU only correctness is looked at, at tiny shapes.
        kernels: The set; None takes Triton's, and says why if it cannot run.

    Returns:
        `device`, `torch`; `checks`, each with the largest error as a share of what is allowed, and
        `wrong`, how many of them are above 1; on CUDA `ceilings`, and `speeds`, each with raw
        samples and its share of the ceilings.
    """
    device = torch.device(device)
    if kernels is None:
        try:
            kernels = load("triton")
        except KernelsUnavailable as error:
            return {"kernels": "triton", "checks": [], "wrong": 0, "speeds": [], "note": f"{error}"}
    on_gpu = device.type == "cuda"
    checks = list(_checked(_large(kernels, device) if on_gpu else _tiny(kernels, device)))
    facts: dict[str, Any] = {
        "kernels": kernels.name,
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "torch": torch.__version__,
        "checks": checks,
        "wrong": sum(not check["right"] for check in checks),
    }
    if not on_gpu:
        return {**facts, "speeds": [], "note": "no GPU here: nothing was timed"}
    most = ceilings(device)
    speeds = [speed_of(one, kernels, device, most) for one in _works(device)]
    return {**facts, "ceilings": asdict(most), "speeds": speeds}


def speed_of(one: Work, kernels: Kernels, device: torch.device, most: Ceilings) -> dict[str, Any]:
    """How long a piece of work takes, as plain data."""
    try:
        samples = seconds_of(one, kernels, device)
    except Exception as error:  # of one kernel on this device: a fact like the others
        return {"kernel": one.kernel, "work": one.name, "error": f"{error}"}
    took = median(samples)
    return {
        "kernel": one.kernel,
        "work": one.name,
        "median_s": took,
        "samples_s": samples,
        "bytes": one.bytes,
        "bytes_per_s": one.bytes / took,
        "flops": one.flops,
        "of_read_ceiling": one.bytes / took / most.read_bytes_per_s,
        "of_matmul_ceiling": one.flops / took / most.flops_per_s,
    }


def refilled(kernels: Kernels, device: torch.device) -> float:
    """A graph captured over a batch, replayed after its lengths, pages and queries have changed."""
    first = Attention((200, 900, 63), (1, 1, 1), 8, 2, 128, dtype=torch.bfloat16)
    second = Attention((777, 30, 900), (1, 1, 1), 8, 2, 128, dtype=torch.bfloat16, seed=1)
    made, other = batch_of(first, device), batch_of(second, device)

    def attend() -> None:
        kernels.attend(made.query, made.layer_pages, made.rows, made.score, made.out)

    attend()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(device)
    with torch.cuda.graph(graph):
        attend()
    pages = min(made.layer_pages.shape[0], other.layer_pages.shape[0])
    made.layer_pages[:pages] = other.layer_pages[:pages]
    made.query.copy_(other.query)
    made.rows.kv_tokens.copy_(torch.tensor([500, 31, 850]))
    made.rows.block_table.zero_()
    width = min(made.rows.block_table.shape[1], other.rows.block_table.shape[1])
    made.rows.block_table[:, :width] = other.rows.block_table[:, :width] % pages
    made.layer_pages.nan_to_num_(nan=0.0)
    graph.replay()
    expected = torch.empty_like(made.out)
    Reference().attend(made.query, made.layer_pages, made.rows, made.score, expected)
    return difference.worst(made.out, expected)


def _checked(checks: Iterator[Check]) -> Iterator[dict[str, Any]]:
    for operation, case, measure in checks:
        try:
            worst = measure()
        except Exception as error:  # a kernel that does not compile is a fact like the others
            yield {"operation": operation, "case": case, "right": False, "error": f"{error}"}
        else:
            finite = worst if worst < torch.inf else None  # JSON knows no infinity
            right = worst <= 1
            yield {"operation": operation, "case": case, "right": right, "worst": finite}


def _tiny(kernels: Kernels, device: torch.device) -> Iterator[Check]:
    plain = Attention((20, 5), (1, 1), 4, 2, 16, page=4)
    mixed = Attention((20, 5), (1, 18), 4, 2, 16, page=4, window=9, softcap=2.0, sinks=True)
    shared = Attention((40, 37, 9), (1, 1, 1), 4, 2, 16, page=4, groups=(((0, 1), 32),))
    yield from _attention(kernels, device, plain, mixed, shared)
    yield from _attention(kernels, device, *_coded(mixed))
    yield from _others(kernels, device, torch.float32, (4, 2, 16), 24, 90)


def _large(kernels: Kernels, device: torch.device) -> Iterator[Check]:
    for dtype in (*_HALVES, torch.float32):
        for width in (64, 80, 128, 256) if dtype == torch.bfloat16 else (128,):
            batches = list(_batches(width, dtype))
            yield from _attention(kernels, device, *batches)
            yield from _attention(kernels, device, *_coded(*batches))
        yield from _others(kernels, device, dtype, (32, 8, 128), 4096, 128_256)
    yield "attend", "a captured graph, refilled", partial(refilled, kernels, device)


def _batches(width: int, dtype: torch.dtype) -> Iterator[Attention]:
    """Decode, prompts beside decodes, siblings, and everything that scores may have."""
    yield Attention((2000, 17, 500), (1, 1, 1), 32, 8, width, dtype=dtype)
    yield Attention((300, 0, 777, 5), (130, 257, 1, 1), 32, 8, width, dtype=dtype)
    yield Attention(
        (1300, 1291, 40, 1400), (1,) * 4, 28, 4, width, dtype=dtype, groups=(((0, 1, 3), 1280),)
    )
    if width == 128 and dtype == torch.bfloat16:
        yield Attention(
            (2000, 100, 40), (1, 200, 3), 8, 8, width, dtype=dtype, window=128, sinks=True
        )
        yield Attention((600, 100), (4, 3), 16, 1, width, dtype=dtype, softcap=30.0)
        yield Attention((1500, 40, 700), (8, 1, 5), 32, 8, width, dtype=dtype)  # behind drafts
        yield Attention((0, 1000, 64), (300, 129, 64), 28, 4, width, page=32, dtype=dtype)
        yield Attention((700, 7, 0), (1, 1, 2), 64, 1, width, page=8, dtype=dtype)


def _coded(*cases: Attention) -> Iterator[Attention]:
    for codes in CODE_DTYPES.values():
        yield from (replace(one, codes=codes) for one in cases)


def _attention(kernels: Kernels, device: torch.device, *cases: Attention) -> Iterator[Check]:
    for case in cases:
        yield "attend", f"{case}", partial(difference.attend, kernels, case, device)


def _others(
    kernels: Kernels,
    device: torch.device,
    dtype: torch.dtype,
    heads: tuple[int, int, int],
    width: int,
    vocabulary: int,
) -> Iterator[Check]:
    kind = f"{dtype}, {width} wide"
    yield "rms_norm", kind, partial(difference.norms, kernels, 5, width, dtype, device)
    yield "gate_mul", kind, partial(difference.gate_mul, kernels, 5, width, dtype, device)
    kinds: tuple[Literal["none", "alike", "own"], ...] = ("none", "alike", "own")
    for norms in kinds:
        case = f"{dtype}, heads {heads}, norms {norms}"
        measure = partial(difference.rope_store, kernels, 5, heads, dtype, device, norms=norms)
        yield "rope_store", case, measure
    for name, kind_of_codes in CODE_DTYPES.items():
        measure = partial(
            difference.rope_store_codes, kernels, 5, heads, dtype, device, kind_of_codes
        )
        yield "rope_store", f"{dtype}, heads {heads}, codes in {name}", measure
    yield "copy_pages", kind, partial(difference.copy_pages, kernels, 6, width, dtype, device)
    yield from _products(kernels, device, dtype, width)
    yield from _routing(kernels, device, dtype, width)
    for grain in (None, 0.5):
        case = f"{vocabulary} tokens, grain {grain}"
        yield (
            "sample",
            case,
            partial(difference.sample, kernels, 6, vocabulary, device, grain=grain),
        )


def _products(
    kernels: Kernels, device: torch.device, dtype: torch.dtype, width: int
) -> Iterator[Check]:
    """Products with matrices in codes, and with those of experts."""
    is_full = device.type == "cuda" and dtype == torch.bfloat16
    for codes, rows in product_of(KINDS, (1, 9, 60, 300) if is_full else (1, 3)):
        sizes = (rows, width + 40, width)
        measure = partial(product_difference, kernels, codes, *sizes, dtype, device)
        yield "product with codes", f"{codes}, {dtype}, {sizes}", measure
    few = (3, 0, 21, 1)  # rows of each expert
    measure = partial(difference.grouped_linear, kernels, few, width // 2, width, dtype, device)
    yield "grouped_linear", f"{dtype}, {width} wide", measure
    # On a GPU, a block of each bound of rows.
    rows_of = [few, (20, 9, 0, 30), (700, 0, 130, 5)] if is_full else [few]
    for codes, each in product_of(KINDS, rows_of):
        shape = (width + 40, width)
        case = f"{codes}, {dtype}, {shape[0]} x {shape[1]} of {each}"
        measure = partial(expert_product_difference, kernels, codes, each, *shape, dtype, device)
        yield "product with experts in codes", case, measure


def _routing(
    kernels: Kernels, device: torch.device, dtype: torch.dtype, width: int
) -> Iterator[Check]:
    """Routes of few tokens and of more, and the sums of what their experts make."""
    rule = RouteRule(3, normalizes=True, rounds=True)
    for tokens in (2, 40):
        case = f"{tokens} tokens, {dtype}"
        yield "route", case, partial(route_difference, kernels, tokens, 24, rule, dtype, device)
    measure = partial(sum_difference, kernels, 5, 3, width, dtype, device)
    yield "sum_choices", f"{dtype}, {width} wide", measure


def _works(device: torch.device) -> Iterator[Work]:
    """Shapes of Llama-3.1-8B, of experts of Mixtral, OLMoE and gpt-oss; plain and in codes."""
    dtype, heads = torch.bfloat16, Heads()
    for sequences, context in ((1, 1024), (1, 32768), (32, 1024), (64, 8192)):
        for codes in ("", *CODE_DTYPES):
            yield work.decode(sequences, context, heads, dtype, device, codes=codes)
    for sequences, new, before in ((1, 4096, 0), (4, 2048, 0), (1, 512, 8192)):
        yield work.extend(sequences, new, before, heads, dtype, device)
    for apart in (True, False):
        yield work.siblings(64, 8192, 512, heads, dtype, device, apart=apart)
    for rows in (1, 64, 4096):
        yield work.norm(rows, 4096, dtype, device)
        yield work.gate(rows, 14336, dtype, device)
        yield work.rope(rows, heads, dtype, device)
    for rows in (1, 64):
        for top_p in (1.0, 0.9):
            yield work.draw(rows, 128_256, device, top_p=top_p)
    for rows in (2, 32, 2048):
        yield work.experts(rows, 8, 14336, 4096, dtype, device)
    for kinds, count, outputs, width in (
        (("int8", "int4 in groups", "fp8"), 8, 28672, 4096),
        (("int4 in groups",), 64, 2048, 2048),
        (("mxfp4",), 32, 5760, 2880),
    ):
        for rows in (8, 64, 2048):
            yield work.experts(rows, count, outputs, width, dtype, device)
            for codes in kinds:
                yield expert_product(codes, rows, count, outputs, width, dtype, device)
    for tokens in (1, 16, 64):
        for experts, each in ((8, 2), (128, 8)):
            for by_torch in (True, False):
                yield routing_work(tokens, experts, each, device, by_torch=by_torch)
        yield sum_work(tokens, 8, 2048, dtype, device)
    for outputs, width in ((4096, 4096), (28672, 4096), (4096, 14336)):
        for rows in (1, 2, 16):  # one row has a kernel of its own, from two on it is one tile
            yield plain_product(rows, outputs, width, dtype, device)
            for codes in ("int8", "int4 in groups", "int4 in groups with zeros", "nf4", "fp8"):
                yield product(codes, rows, outputs, width, dtype, device)
        yield plain_product(2048, outputs, width, dtype, device)
        for codes in ("int4 in groups", "fp8", "fp8 by fp8", "fp8 in blocks by fp8"):
            yield product(codes, 2048, outputs, width, dtype, device)
    for from_host in (False, True):
        yield work.page_copy(128, 2**21, device, from_host=from_host)
