"""The contract on CPUs: each operation fills a struct and makes one native call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof
from itertools import pairwise

import torch
from torch import Tensor

from agentrt_kernels.contract import SILU, Activation, HeadNorms, PagedRows, Score
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.experts import ExpertMatrices, PackedExpert, PackedExperts
from agentrt_kernels.cpu.linear import KINDS, LinearParts, NativeLinear, PackedLinear, pack
from agentrt_kernels.cpu.movable_experts import MovableExperts
from agentrt_kernels.cpu.operands import norm_stride, set_activation, set_pages, set_rows, set_score
from agentrt_kernels.cpu.quantised import QuantisedLinear, pack_codes
from agentrt_kernels.cpu.stack import EmbeddingRows, Stack, StackLayer, StackShape
from agentrt_kernels.cpu.stored_linear import LinearSize, joined_linear
from agentrt_kernels.kv_codes import CODE_DTYPES, SCALE_DTYPE
from agentrt_kernels.looped_experts import LoopedCodes, packed_each
from agentrt_kernels.quantised_weight import QuantisedWeight
from agentrt_kernels.routes import TorchRouting

_FEW_ROWS = 4
"""Rows an expert up to which a row's dot products beat a matrix product."""

_SPINS = 4000
"""Looks of a waiting thread before it sleeps: some tens of microseconds."""


class CpuKernels(TorchRouting):
    """C++ for the machine it runs on.

    Args:
        threads: Number of threads; 0 takes torch's.
        native: The library; None is that of the processor at hand.

    Raises:
        KernelsUnavailable: The library cannot be compiled or loaded; the message says why.
    """

    name = "cpu"

    def __init__(self, threads: int = 0, native: c.Native | None = None) -> None:
        self._native = native or c.native()
        self._norm, self._gate, self._rope = c.NormCall(), c.GateCall(), c.RopeCall()
        self._attention, self._sample = c.AttentionCall(), c.SampleCall()
        self.use_threads(threads or torch.get_num_threads())

    @property
    def has_byte_products(self) -> bool:
        """Whether rows for quantised weights can be rounded to eight bits."""
        return self._native.has_byte_products

    def use_threads(self, threads: int, spins: int = _SPINS) -> None:
        """Compute with so many threads from now on; it holds for all sets of this process."""
        self._native.threads(threads, spins)

    def rms_norm(
        self,
        x: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """See `Kernels.rms_norm`."""
        self._normed(None, x, weight, epsilon, out, centered)

    def add_rms_norm(
        self,
        delta: Tensor,
        residual: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """See `Kernels.add_rms_norm`."""
        self._normed(delta, residual, weight, epsilon, out, centered)

    def _normed(
        self,
        delta: Tensor | None,
        residual: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        centered: bool,
    ) -> None:
        call = self._norm
        call.delta = None if delta is None else delta.data_ptr()
        call.delta_stride = 0 if delta is None else delta.stride(0)
        call.residual, call.residual_stride = residual.data_ptr(), residual.stride(0)
        call.weight = weight.data_ptr()
        call.out, call.out_stride = out.data_ptr(), out.stride(0)
        call.rows, call.width = residual.shape
        call.kind, call.epsilon = _kind(residual, out), epsilon
        call.wide, call.centered = _is_wide(weight, residual), centered
        self._native.norm(addressof(call))

    def gate_mul(self, gate_up: Tensor, out: Tensor, activation: Activation = SILU) -> None:
        """See `Kernels.gate_mul`."""
        call = self._gate
        call.gate_up, call.gate_stride = gate_up.data_ptr(), gate_up.stride(0)
        call.out, call.out_stride = out.data_ptr(), out.stride(0)
        call.rows, call.width = out.shape
        set_activation(call.activation, activation)
        call.kind = _kind(gate_up, out)
        self._native.gate(addressof(call))

    def rope_store(
        self,
        qkv: Tensor,
        positions: Tensor,
        angles: Tensor,
        rows: Tensor,
        norms: HeadNorms | None,
        layer_pages: Tensor,
        query: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """See `Kernels.rope_store`."""
        call = self._rope
        rope = call.rope
        rope.qkv, rope.qkv_stride, rope.qkv_head_stride = _rows_of(qkv)
        rope.positions, rope.slots = positions.data_ptr(), rows.data_ptr()
        rope.angles, rope.angles_stride = angles.data_ptr(), angles.stride(0)
        rope.query_norm = None if norms is None else norms.query.data_ptr()
        rope.key_norm = None if norms is None else norms.key.data_ptr()
        rope.norm_stride = 0 if norms is None else norm_stride(norms.query)
        rope.epsilon = 0.0 if norms is None else norms.epsilon
        rope.centered = norms is not None and norms.centered
        rope.query, rope.query_stride, rope.query_head_stride = _rows_of(query)
        rope.heads = query.shape[1]
        _check_stored(layer_pages, scales, query)
        set_pages(call.pages, layer_pages, scales)
        call.rows, call.kind = query.shape[0], _kind(qkv, query)
        call.wide = norms is not None and _is_wide(norms.query, qkv)
        self._native.rope(addressof(call))

    def attend(
        self,
        query: Tensor,
        layer_pages: Tensor,
        rows: PagedRows,
        score: Score,
        out: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """See `Kernels.attend`."""
        call = self._attention
        heads = call.heads
        heads.query, heads.query_stride, heads.query_head_stride = _rows_of(query)
        heads.out, heads.out_stride, heads.out_head_stride = _rows_of(out)
        heads.heads = query.shape[1]
        _check_stored(layer_pages, scales, query)
        set_pages(call.pages, layer_pages, scales)
        set_rows(call.rows, rows)
        sinks = score.sinks
        if sinks is not None:
            sinks = sinks.float().contiguous()
        set_score(call.how, score, sinks)
        call.kind = _kind(query, out)
        self._native.attend(addressof(call))

    def sample(
        self,
        logits: Tensor,
        mask: Tensor | None,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        min_p: Tensor,
        uniform: Tensor,
        out: Tensor,
    ) -> None:
        """See `Kernels.sample`."""
        call = self._sample
        call.logits, call.stride = logits.data_ptr(), logits.stride(0)
        call.rows, call.tokens = logits.shape
        call.mask = None if mask is None else mask.data_ptr()
        call.mask_stride = 0 if mask is None else mask.stride(0)
        call.temperature, call.top_k = temperature.data_ptr(), top_k.data_ptr()
        call.top_p, call.min_p = top_p.data_ptr(), min_p.data_ptr()
        call.uniform, call.out = uniform.data_ptr(), out.data_ptr()
        self._native.sample(addressof(call))

    def copy_pages(self, source: Tensor, target: Tensor, pairs: Tensor) -> None:
        """See `Kernels.copy_pages`."""
        call = c.CopyCall()
        size = source.element_size()
        call.source, call.source_stride = source.data_ptr(), source.stride(0) * size
        call.target, call.target_stride = target.data_ptr(), target.stride(0) * size
        call.pairs, call.count = pairs.data_ptr(), pairs.shape[0]
        call.bytes = source.shape[1] * size
        self._native.copy(addressof(call))

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """See `Kernels.grouped_linear`."""
        experts, outputs, inputs = weight.shape
        if x.shape[0] > _FEW_ROWS * experts:
            for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
                if start < stop:
                    torch.mm(x[start:stop], weight[expert].t(), out=out[start:stop])
            return
        call = c.GroupedCall()
        call.x, call.x_stride = x.data_ptr(), x.stride(0)
        call.weight, call.expert_stride, call.row_stride = _rows_of(weight)
        call.out, call.out_stride = out.data_ptr(), out.stride(0)
        call.expert_start = expert_start.data_ptr()
        call.experts, call.outputs, call.inputs = experts, outputs, inputs
        call.kind = _kind(x, weight, out)
        self._native.grouped(addressof(call))

    def pack(
        self, weight: Tensor, bias: Tensor | None = None, *, gated: bool = False
    ) -> PackedLinear:
        """A linear `[N, K]` whose weight is read at memory's pace; see `PackedLinear`."""
        return pack(self._native, weight, bias, gated=gated)

    def pack_codes(
        self, weight: QuantisedWeight, bias: Tensor | None = None, *, gated: bool = False
    ) -> QuantisedLinear:
        """A linear `[N, K]` whose weight stays quantised; see `QuantisedLinear`."""
        return pack_codes(self._native, weight, bias, gated=gated)

    def pack_expert_codes(
        self, weights: Sequence[QuantisedWeight], biases: Tensor | None = None
    ) -> LoopedCodes:
        """See `Kernels.pack_expert_codes`; `pack_experts` is one call for the whole layer."""
        return LoopedCodes(packed_each(self.pack_codes, weights, biases))

    def joined_linear(self, parts: LinearParts, size: LinearSize) -> NativeLinear:
        """A linear that was packed before; see `stored_linear.joined_linear`."""
        return joined_linear(self._native, parts, size)

    def pack_experts(
        self, experts: Iterable[ExpertMatrices | PackedExpert], activation: Activation = SILU
    ) -> PackedExperts:
        """The experts of a layer as one call; see `PackedExperts`."""
        return PackedExperts(self._native, experts, activation)

    def movable_experts(
        self,
        experts: Iterable[ExpertMatrices | PackedExpert],
        activation: Activation,
        store: Callable[[Tensor], None],
    ) -> MovableExperts:
        """The experts of a layer as one call, each in memory of its own; see `MovableExperts`."""
        return MovableExperts(self._native, experts, activation, store)

    def stack(
        self,
        shape: StackShape,
        embedding: Tensor | EmbeddingRows,
        layers: Iterable[StackLayer],
        norm: Tensor,
        head: Tensor | QuantisedWeight | NativeLinear,
    ) -> Stack:
        """All layers of a dense decoder as one call; see `Stack`."""
        return Stack(self._native, shape, embedding, layers, norm, head)


def _rows_of(x: Tensor) -> tuple[int, int, int]:
    """Address and the two strides of `[rows, heads, D]`."""
    return x.data_ptr(), x.stride(0), x.stride(1)


def _is_wide(weight: Tensor, x: Tensor) -> bool:
    """Whether the weight of a norm is fp32, whatever the rows are."""
    if weight.dtype not in (torch.float32, x.dtype):
        raise TypeError(f"the norm of {x.dtype} takes a weight of it or fp32, not {weight.dtype}")
    return weight.dtype is torch.float32


def _check_stored(layer_pages: Tensor, scales: Tensor | None, query: Tensor) -> None:
    """Check that keys and values are of the dtype of the queries, or codes with their scales."""
    taken = (query.dtype,) if scales is None else tuple(CODE_DTYPES.values())
    if layer_pages.dtype not in taken:
        names = " or ".join(str(one) for one in taken)
        raise TypeError(
            f"the cpu kernels read {names} beside such queries, not {layer_pages.dtype}"
        )
    if scales is not None and (scales.dtype is not SCALE_DTYPE or scales.stride(-1) != 1):
        raise TypeError(f"the scales of codes are {SCALE_DTYPE}, those of a page side by side")


def _kind(*tensors: Tensor) -> int:
    first = tensors[0].dtype
    if first not in KINDS or any(one.dtype is not first for one in tensors):
        names = ", ".join(str(one.dtype) for one in tensors)
        raise TypeError(f"the cpu kernels compute in one of fp32 and bf16, not {names}")
    return KINDS[first]
