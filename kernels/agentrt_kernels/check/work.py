"""Work that kernels are timed on: operands of a size, and the bytes and sums that it cannot avoid.

A piece of work has several rounds over different memory, so that a cache that held the last round
does not help the next, as in a model, where each layer has memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt_kernels.contract import Kernels, PagedRows, Score, SharedPrefix
from agentrt_kernels.kv_codes import CODE_DTYPES, SCALE_DTYPE

_PAGE = 16
_COLD_BYTES = 256 * 2**20
"""Memory of all rounds together: several times the cache of any GPU so far."""
_MOST_ROUNDS = 32


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of an attention layer; Llama-3.1-8B's by default."""

    query: int = 32
    kv: int = 8
    width: int = 128


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work to time.

    Attributes:
        kernel: Name of the kernel's file.
        name: Description for a report.
        call: One round.
        rounds: Number of rounds.
        bytes: Least number of bytes that a round reads and writes.
        flops: Operations of a round's matrix products.
    """

    kernel: str
    name: str
    call: Callable[[Kernels, int], None]
    rounds: int
    bytes: int
    flops: int


def decode(
    sequences: int,
    context: int,
    heads: Heads,
    dtype: torch.dtype,
    device: torch.device,
    *,
    codes: str = "",
) -> Work:
    """One row each of sequences with histories of their own; `codes` is a name of `CODE_DTYPES`."""
    history = _History(sequences, context, heads, dtype, device, codes=codes)
    rows = history.rows(torch.arange(sequences + 1), 1)
    flops = 4 * sequences * context * heads.query * heads.width
    name = f"{sequences} x {context} tokens" + (f" in {codes}" if codes else "")
    return history.work("paged_decode", name, rows, sequences, history.bytes, flops)


def extend(
    sequences: int, new: int, before: int, heads: Heads, dtype: torch.dtype, device: torch.device
) -> Work:
    """Prompts, or chunks of them."""
    history = _History(sequences, before + new, heads, dtype, device)
    rows = history.rows(torch.arange(sequences + 1) * new, new)
    pairs = sequences * (new * before + new * (new + 1) // 2)
    moved = history.bytes + 2 * sequences * new * heads.query * heads.width * dtype.itemsize
    name = f"{sequences} x {new} rows after {before} tokens"
    flops = 4 * pairs * heads.query * heads.width
    return history.work("paged_extend", name, rows, sequences * new, moved, flops)


def siblings(
    members: int,
    shared: int,
    own: int,
    heads: Heads,
    dtype: torch.dtype,
    device: torch.device,
    *,
    apart: bool = False,
) -> Work:
    """One row each of sequences that begin with the same tokens; `apart` reads them for each."""
    history = _History(members, shared + own, heads, dtype, device)
    history.table[:, : shared // _PAGE] = history.table[0, : shared // _PAGE].clone()
    prefix = SharedPrefix(
        _whole([0, members], device),
        _whole(list(range(members)), device),
        _whole([shared], device),
        history.table[:1, : shared // _PAGE].contiguous(),
        members,
    )
    rows = history.rows(torch.arange(members + 1), 1, None if apart else prefix)
    moved = (shared + members * own) * history.token_bytes
    flops = 4 * members * (shared + own) * heads.query * heads.width
    how = "apart" if apart else "together"
    name = f"{members} x {own} tokens after {shared} that they share, read {how}"
    return history.work("shared_prefix", name, rows, members, moved, flops)


def norm(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Work:
    """A norm after a residual's sum."""
    moved = 4 * rows * width * dtype.itemsize
    rounds = rounds_of(moved)
    delta, residual = (_random(dtype, device, rounds, rows, width) for _ in range(2))
    weight = _random(dtype, device, width)

    def call(kernels: Kernels, at: int) -> None:
        kernels.add_rms_norm(delta[at], residual[at], weight, 1e-6, delta[at])

    return Work("rms_norm", f"{rows} x {width}", call, rounds, moved, 0)


def gate(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Work:
    """A layer's gate."""
    moved = 3 * rows * width * dtype.itemsize
    rounds = rounds_of(moved)
    gate_up = _random(dtype, device, rounds, rows, 2 * width)
    out = torch.empty(rounds, rows, width, dtype=dtype, device=device)

    def call(kernels: Kernels, at: int) -> None:
        kernels.gate_mul(gate_up[at], out[at])

    return Work("gate_mul", f"{rows} x {width}", call, rounds, moved, 0)


def rope(rows: int, heads: Heads, dtype: torch.dtype, device: torch.device) -> Work:
    """Rotation and store of consecutive tokens."""
    everything = heads.query + 2 * heads.kv
    moved = 2 * rows * everything * heads.width * dtype.itemsize
    rounds = rounds_of(moved)
    qkv = _random(dtype, device, rounds, rows, everything, heads.width)
    query = torch.empty(rows, heads.query, heads.width, dtype=dtype, device=device)
    pages = torch.empty(
        -(-rows // _PAGE), rounds, 2, _PAGE, heads.kv, heads.width, dtype=dtype, device=device
    )
    places = torch.arange(rows, device=device)
    angles = _random(torch.float32, device, rows, heads.width)

    def call(kernels: Kernels, at: int) -> None:
        kernels.rope_store(qkv[at], places, angles, places, None, pages[:, at], query)

    return Work("rope_store", f"{rows} rows", call, rounds, moved, 0)


def draw(rows: int, vocabulary: int, device: torch.device, *, top_p: float) -> Work:
    """Tokens from logits, all rows alike."""
    moved = rows * vocabulary * 4
    logits = _random(torch.float32, device, rows, vocabulary).mul_(4)
    spare = logits.clone()
    one, out = torch.ones(rows, device=device), torch.empty(rows, dtype=torch.int64, device=device)
    uniform = torch.linspace(0, 0.99, rows, dtype=torch.float64, device=device)
    heat = one if top_p < 1 else 0 * one

    def call(kernels: Kernels, at: int) -> None:
        spare.copy_(logits)  # a draw may overwrite what it draws from
        kernels.sample(spare, None, heat, 0 * one.int(), top_p * one, 0 * one, uniform, out)

    how = f"top-p {top_p}" if top_p < 1 else "greedy"
    return Work("sample", f"{rows} x {vocabulary}, {how}", call, 1, moved, 0)


def experts(
    rows: int, count: int, outputs: int, width: int, dtype: torch.dtype, device: torch.device
) -> Work:
    """Rows spread evenly over experts."""
    used = min(rows, count)
    moved = (used * outputs * width + rows * (width + outputs)) * dtype.itemsize
    rounds = min(4, rounds_of(moved))
    weight = _random(dtype, device, rounds, count, outputs, width)
    x, out = _random(dtype, device, rows, width), _random(dtype, device, rows, outputs)
    start = (torch.arange(count + 1) * rows // count).int().to(device)

    def call(kernels: Kernels, at: int) -> None:
        kernels.grouped_linear(x, weight[at], start, out)

    name = f"{rows} rows, {count} experts of {outputs} x {width}, plain"
    return Work("grouped_gemm", name, call, rounds, moved, 2 * rows * outputs * width)


def page_copy(count: int, page_bytes: int, device: torch.device, *, from_host: bool) -> Work:
    """Pages between this device and pinned memory; on the CPU between two memories."""
    values = page_bytes // 2
    here = _random(torch.float16, device, count, values)
    there = torch.empty(count, values, dtype=torch.float16, pin_memory=device.type == "cuda")
    pairs = torch.arange(count, device=device)[:, None].expand(count, 2).contiguous()
    source, target = (there, here) if from_host else (here, there)

    def call(kernels: Kernels, at: int) -> None:
        kernels.copy_pages(source, target, pairs)

    how = "from the host" if from_host else "to the host"
    return Work("page_copy", f"{count} x {page_bytes} bytes {how}", call, 1, count * page_bytes, 0)


class _History:
    """Pages of sequences of one length, in several layers."""

    def __init__(
        self,
        sequences: int,
        context: int,
        heads: Heads,
        dtype: torch.dtype,
        device: torch.device,
        *,
        codes: str = "",
    ) -> None:
        head_bytes = heads.width * dtype.itemsize
        if codes:
            head_bytes = heads.width + SCALE_DTYPE.itemsize
        self.token_bytes = 2 * heads.kv * head_bytes
        self._dtype = dtype
        self.bytes = sequences * context * self.token_bytes
        self._heads, self._context = heads, context
        self._rounds = rounds_of(self.bytes)
        each = -(-context // _PAGE)
        pages = sequences * each
        each_page = (pages, self._rounds, 2, _PAGE, heads.kv, heads.width)
        self.scales: Tensor | None = None
        if codes:
            # Of FP8 all that are numbers: the byte of the largest is 126.
            most = 126 if codes == "fp8" else 127
            whole = torch.randint(-most, most + 1, each_page, dtype=torch.int8, device=device)
            self.memory = whole.view(CODE_DTYPES[codes])
            self.scales = _random(SCALE_DTYPE, device, pages, self._rounds, 2, heads.kv, _PAGE)
            self.scales.abs_().mul_(0.02)
        else:
            self.memory = _random(dtype, device, *each_page)
        order = torch.randperm(pages, generator=torch.Generator().manual_seed(0))
        self.table = order.int().view(sequences, each).to(device)

    def rows(self, start: Tensor, most: int, prefix: SharedPrefix | None = None) -> PagedRows:
        """A batch in which each sequence has up to `most` rows."""
        device = self.table.device
        tokens = _whole([self._context] * self.table.shape[0], device)
        return PagedRows(start.int().to(device), tokens, self.table, most, self._context, prefix)

    def work(
        self, kernel: str, name: str, rows: PagedRows, count: int, moved: int, flops: int
    ) -> Work:
        """Attention of `count` rows in every layer."""
        heads = self._heads
        query = _random(self._dtype, self.table.device, count, heads.query, heads.width)
        out, score = torch.empty_like(query), Score(heads.width**-0.5)
        memory, scales = self.memory, self.scales

        def call(kernels: Kernels, at: int) -> None:
            of_layer = None if scales is None else scales[:, at]
            kernels.attend(query, memory[:, at], rows, score, out, of_layer)

        return Work(kernel, name, call, self._rounds, moved, flops)


def rounds_of(round_bytes: int) -> int:
    """Rounds whose memory together no cache holds, if each takes so many bytes."""
    return max(1, min(_MOST_ROUNDS, -(-_COLD_BYTES // max(1, round_bytes))))


def _random(dtype: torch.dtype, device: torch.device, *shape: int) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device=device).normal_()


def _whole(values: list[int], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)
