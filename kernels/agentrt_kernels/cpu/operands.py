"""Tensors of the contract as the native code's structs. They have to live until the call."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from agentrt_kernels.contract import Activation, PagedRows, Score
from agentrt_kernels.cpu import library as c


class KvCoding(IntEnum):
    """`enum class KvCoding`: what is stored for keys and values."""

    NONE = 0
    STEPS = 1
    E4M3 = 2


_CODINGS = {torch.int8: KvCoding.STEPS, torch.float8_e4m3fn: KvCoding.E4M3}


def set_pages(pages: c.Pages, layer_pages: Tensor, scales: Tensor | None = None) -> None:
    """`layer_pages` `[pages, 2, P, K, D]`, and `scales` `[pages, 2, K, P]` if they are codes."""
    pages.coding = KvCoding.NONE if scales is None else _CODINGS[layer_pages.dtype]
    pages.memory = layer_pages.data_ptr()
    pages.page_stride, pages.value_offset, pages.token_stride, pages.head_stride, _ = (
        layer_pages.stride()
    )
    _, _, pages.page_tokens, pages.kv_heads, pages.head_dim = layer_pages.shape
    pages.scales = None
    if scales is not None:
        pages.scales = scales.data_ptr()
        pages.scale_page_stride, pages.scale_value_offset, pages.scale_head_stride, _ = (
            scales.stride()
        )


def set_rows(to: c.Rows, rows: PagedRows) -> None:
    """Which row sees which pages; the tensors have to live until the call."""
    to.query_start, to.kv_tokens = rows.query_start.data_ptr(), rows.kv_tokens.data_ptr()
    to.table, to.table_stride = rows.block_table.data_ptr(), rows.block_table.stride(0)
    to.sequences = rows.kv_tokens.shape[0]
    prefix = rows.prefix
    if prefix is None:
        to.groups = 0
        return
    to.groups = prefix.tokens.shape[0]
    to.member_start, to.members = prefix.member_start.data_ptr(), prefix.members.data_ptr()
    to.prefix_tokens, to.prefix_table = prefix.tokens.data_ptr(), prefix.block_table.data_ptr()
    to.prefix_stride = prefix.block_table.stride(0)


def set_score(to: c.Score, score: Score, sinks: Tensor | None) -> None:
    """`sinks` are the score's in fp32, and have to live until the call."""
    to.scaling, to.softcap = score.scaling, score.softcap or 0.0
    to.window, to.unseen = score.window or 0, score.unseen
    to.sinks = None if sinks is None else sinks.data_ptr()


def norm_stride(weight: Tensor) -> int:
    """Values from one head's weight to the next; 0 if all heads have the same."""
    return weight.stride(0) if weight.dim() > 1 else 0


def set_activation(to: c.Activation, activation: Activation) -> None:
    """How a gate opens."""
    to.slope, to.cubic = activation.slope, activation.cubic
    to.shift, to.limit = activation.shift, activation.limit
