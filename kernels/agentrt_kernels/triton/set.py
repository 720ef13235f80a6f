"""The Triton set: picks kernels, tiles and shares from bounds, and keeps the scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
import triton
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.quantised_weight import QuantisedWeight
from agentrt_kernels.routes import ExpertOrder, RouteRule, TorchRouting, TrainedRoutes
from agentrt_kernels.triton import route as routing
from agentrt_kernels.triton.blocks import Blocks, Case, Table, cached, shipped
from agentrt_kernels.triton.dependent_launch import capability
from agentrt_kernels.triton.gate_mul import gate_mul
from agentrt_kernels.triton.grouped_gemm import grouped_gemm
from agentrt_kernels.triton.hopper_extend import fits, hopper_extend
from agentrt_kernels.triton.merge import FEWEST_SHARE_TOKENS, MOST_SHARES, Partials, merge
from agentrt_kernels.triton.page_copy import copy_pages
from agentrt_kernels.triton.paged_decode import paged_decode
from agentrt_kernels.triton.paged_extend import paged_extend
from agentrt_kernels.triton.quantised import QuantisedLinear, pack_codes
from agentrt_kernels.triton.quantised_experts import QuantisedExperts, pack_expert_codes
from agentrt_kernels.triton.rms_norm import rms_norm
from agentrt_kernels.triton.rope_store import rope_store
from agentrt_kernels.triton.sample import sample
from agentrt_kernels.triton.shared_prefix import shared_prefix
from agentrt_kernels.triton.tile import is_interpreted
from agentrt_kernels.triton.tile_file import origin_here, read_tiles
from agentrt_kernels.triton.weighted_sum import weighted_sum
from agentrt_kernels.triton.workspace import Workspace

_MOST_DECODE_ROWS = 64
"""Rows times heads of a group up to which a sequence's history is split among programs."""
_DECODE_PROGRAMS = 2
"""A multiprocessor. Three find room on one: with more, a few run alone when the rest has ended."""
_PREFIX_PROGRAMS = 1
"""Fewer: a share of a prefix leaves a partial result for each member, which is read again."""
_PRODUCT_PROGRAMS = 4
"""Programs on a multiprocessor: with few rows each has little of a matrix under way."""


def runs_here() -> bool:
    """Whether there is a device to compile for, or the interpreter is switched on."""
    return torch.cuda.is_available() or is_interpreted()


class TritonKernels(TorchRouting):
    """Kernels for CUDA; tensors on the CPU run under the interpreter, if it is switched on.

    Args:
        table: Tiles; None reads the shipped table and this machine's own.
        programs: Programs of a product that a device holds at a time; None asks the device.
    """

    name = "triton"
    gate_mul = staticmethod(gate_mul)
    rope_store = staticmethod(rope_store)
    copy_pages = staticmethod(copy_pages)

    def __init__(self, table: Table | None = None, *, programs: int | None = None) -> None:
        self._programs = programs
        self._table = table or shipped().with_more(read_tiles(cached(), origin_here()))
        self._workspaces: dict[torch.device, Workspace] = {}

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
        rms_norm(x, None, weight, epsilon, out, centered=centered)

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
        rms_norm(delta, residual, weight, epsilon, out, centered=centered)

    def attend(
        self,
        query: Tensor,
        layer_pages: Tensor,
        rows: PagedRows,
        score: Score,
        out: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """See `Kernels.attend`.

        Sequences with few rows have their history split, those with many their rows; a batch that
        may hold both runs both kernels, and each leaves alone what is the other's.
        """
        if query.shape[0] == 0:
            return
        group = query.shape[1] // layer_pages.shape[3]
        most_rows = rows.most_query_tokens
        if most_rows * group > _MOST_DECODE_ROWS:
            alone = rows.kv_tokens.shape[0] == 1
            blocks = self._blocks("paged_extend", query, scales)
            fewest = 1 if alone else 2
            if fits(query, layer_pages, rows, score, capability(query.device)):
                hopper_extend(query, layer_pages, rows, score, out, fewest_rows=fewest)
            else:
                paged_extend(
                    query, layer_pages, rows, score, out, scales, fewest_rows=fewest, blocks=blocks
                )
            if alone:
                return
            most_rows = 1
        partials = self._partials(query, layer_pages, rows, most_rows)
        if rows.prefix is not None:
            shared_prefix(
                query,
                layer_pages,
                rows,
                rows.prefix,
                score,
                scales,
                most_rows=most_rows,
                programs=_PREFIX_PROGRAMS * _multiprocessors(query.device),
                partials=partials,
                blocks=self._blocks("shared_prefix", query, scales),
            )
        paged_decode(
            query,
            layer_pages,
            rows,
            score,
            out,
            scales,
            most_rows=most_rows,
            partials=partials,
            blocks=self._blocks("paged_decode", query, scales),
        )
        if partials.own + partials.shared > 1:
            merge(rows, score, out, most_rows=most_rows, partials=partials)

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
        workspace = self.workspace(logits.device)
        sample(logits, mask, temperature, top_k, top_p, min_p, uniform, out, workspace)

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """See `Kernels.grouped_linear`."""
        if x.shape[0] == 0:
            return
        rows = _expert_rows(x.shape[0], weight.shape[0])
        blocks = self._find("grouped_gemm", _bound(rows), x)
        grouped_gemm(x, weight, expert_start, out, blocks=blocks)

    def pack_codes(self, weight: QuantisedWeight, bias: Tensor | None = None) -> QuantisedLinear:
        """See `Kernels.pack_codes`."""
        return pack_codes(self, weight, bias)

    def pack_expert_codes(
        self, weights: Sequence[QuantisedWeight], biases: Tensor | None = None
    ) -> QuantisedExperts:
        """See `Kernels.pack_expert_codes`."""
        return pack_expert_codes(self, weights, biases)

    def route(self, scores: Tensor, rule: RouteRule) -> TrainedRoutes:
        """See `Kernels.route`: few tokens in one launch, many by operations of torch."""
        if scores.shape[0] > 0 and routing.routes(scores.shape[0], rule.each, scores.shape[1]):
            return routing.route(scores, rule)
        return super().route(scores, rule)

    def sort_choices(self, chosen: Tensor, experts: int) -> ExpertOrder:
        """See `Kernels.sort_choices`; likewise."""
        if chosen.shape[0] > 0 and routing.sorts(*chosen.shape):
            return routing.sort_choices(chosen, experts)
        return super().sort_choices(chosen, experts)

    def sum_choices(self, made: Tensor, order: ExpertOrder, shares: Tensor, out: Tensor) -> None:
        """See `Kernels.sum_choices`."""
        weighted_sum(made, order.places, shares, out)

    def product_blocks(
        self, kernel: str, x: Tensor, bits: int, experts: int | None = None
    ) -> Blocks:
        """See `ProductSettings`."""
        bits = 32 if x.dtype is torch.float32 and kernel != "fp8_gemm" else bits
        rows = x.shape[0]
        if experts is not None:
            kernel, rows = f"grouped_{kernel}", _expert_rows(rows, experts)
        return self._table.find(Case(kernel, _bound(rows), bits, capability(x.device)))

    def product_room(self, device: torch.device) -> int:
        """See `ProductSettings`."""
        return self._programs or _PRODUCT_PROGRAMS * _multiprocessors(device)

    def workspace(self, device: torch.device) -> Workspace:
        """Scratch memory of a device."""
        if device not in self._workspaces:
            self._workspaces[device] = Workspace(device)
        return self._workspaces[device]

    def _blocks(self, kernel: str, query: Tensor, scales: Tensor | None = None) -> Blocks:
        width = triton.next_power_of_2(query.shape[2])
        return self._find(kernel, width, query, coded=scales is not None)

    def _find(self, kernel: str, width: int, x: Tensor, *, coded: bool = False) -> Blocks:
        bits, device = x.element_size() * 8, capability(x.device)
        return self._table.find(Case(kernel, width, bits, device, coded))

    def _partials(
        self, query: Tensor, layer_pages: Tensor, rows: PagedRows, most_rows: int
    ) -> Partials:
        """Memory of as many shares as fill the device, by the batch's bounds alone."""
        sequences, kv_heads = rows.kv_tokens.shape[0], layer_pages.shape[3]
        room = _DECODE_PROGRAMS * _multiprocessors(query.device)
        own = _shares(sequences * kv_heads, rows.most_kv_tokens, room)
        shared = 0
        if rows.prefix is not None:
            # As if all sequences had one prefix; with several, each has fewer of them.
            pages = rows.prefix.block_table.shape[1]
            stacked = rows.prefix.members.shape[0] * query.shape[1] // kv_heads
            blocks = -(-stacked // self._blocks("shared_prefix", query).rows)
            room = _PREFIX_PROGRAMS * _multiprocessors(query.device)
            shared = _shares(kv_heads * blocks, pages * layer_pages.shape[2], room)
        workspace = self.workspace(query.device)
        shape = (own + shared, sequences, most_rows, query.shape[1])
        values = workspace.take("attend.values", (*shape, query.shape[2]), torch.float32)
        logsumexp = workspace.take("attend.logsumexp", shape, torch.float32)
        return Partials(values, logsumexp, own, shared)


def _bound(rows: int) -> int:
    """Rows of a tile, by those that there are."""
    return 16 if rows <= 16 else 64 if rows <= 64 else 128


def _expert_rows(rows: int, experts: int) -> int:
    """Rows of a busy expert, by a guess."""
    return 2 * rows // experts


def _shares(histories: int, tokens: int, room: int) -> int:
    """Programs that share a history of at most `tokens`, if the device has room for `room`."""
    wanted = round(room / max(1, histories))
    return max(1, min(MOST_SHARES, tokens // FEWEST_SHARE_TOKENS, wanted))


@cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
