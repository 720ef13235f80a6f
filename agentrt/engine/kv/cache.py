"""The KV cache: one tensor, cut into pages that hold all layers of some tokens.

Keys and values are stored as they are, or as codes of eight bits with a scale for each token and
head (`agentrt_kernels.kv_codes`). Codes and scales of a page lie in one piece, so that whatever
copies, shares, offloads or frees a page does so with both.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt_kernels.kv_codes import SCALE_DTYPE, encode_heads

_FREE_MEMORY_SHARES = {"cpu": 0.25, "cuda": 0.9}
"""Share of the free memory that the cache takes if no size is configured. A GPU serves nothing
else; the memory of a CPU has other uses."""

_LINE_BYTES = 64
"""KV on a CPU begins at a line of the cache: a head of 64 codes then lies in one, not in two."""

_MAX_CPU_BYTES = 4 << 30
"""Default limit on a CPU, so that a machine with much memory does not page it all in."""


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Shape of one model's KV.

    Attributes:
        layers: Attention layers.
        kv_heads: Heads of keys and values.
        head_dim: Width of one head.
        page_tokens: Tokens of one page.
        dtype: Type in which values are computed, and stored unless there are codes.
        device: Device of the cache.
        codes: Dtype of the codes that are stored with scales, one of
            `agentrt_kernels.kv_codes.CODE_DTYPES`; None stores values as they are computed.
    """

    layers: int
    kv_heads: int
    head_dim: int
    page_tokens: int
    dtype: torch.dtype
    device: torch.device
    codes: torch.dtype | None = None

    @property
    def code_bytes(self) -> int:
        """Bytes of a page's keys or values in one layer, without their scales."""
        values = self.page_tokens * self.kv_heads * self.head_dim
        if self.codes is not None:
            return values + values % 2  # scales of two bytes follow
        return values * self.dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes of a page's keys or values in one layer."""
        scales = self.page_tokens * self.kv_heads * SCALE_DTYPE.itemsize
        return self.code_bytes + (0 if self.codes is None else scales)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: keys and values of all layers.

        Example:
            >>> cpu = torch.device("cpu")
            >>> plain = KvLayout(1, 2, 64, 16, torch.bfloat16, cpu)
            >>> coded = KvLayout(1, 2, 64, 16, torch.bfloat16, cpu, torch.int8)
            >>> plain.page_bytes, coded.page_bytes
            (8192, 4224)
        """
        return self.layers * 2 * self.block_bytes


class KvCache:
    """Keys and values of all pages.

    A page is contiguous, so that it can be copied as one, and so is a layer's part of it: its keys,
    then its values. Seen as rows of one token, layer `l`'s keys of (page, offset) are row `page *
    row_stride + l * 2 * page_tokens + offset`: the part that depends on the layer is a constant
    shift, so one index serves all layers.

    Attributes:
        layout: Shape of the KV.
        pages: Number of pages.
        page_stride: Distance of two pages, in page-sized blocks of one layer's keys.
        stored: `[pages, layers, 2, n]`, contiguous: all that is stored; what copies pages copies
            this.
        memory: `[pages, layers, 2, page, kv_heads, head_dim]`, its values, or its codes.
        scales: `[pages, layers, 2, kv_heads, page]` bf16 of the codes; None if there are none.
    """

    def __init__(self, layout: KvLayout, pages: int) -> None:
        self.layout = layout
        self.pages = pages
        self.page_stride = 2 * layout.layers
        dtype = layout.dtype if layout.codes is None else torch.int8  # bytes, of any codes
        width = layout.block_bytes // dtype.itemsize
        self.stored = _zeros((pages, layout.layers, 2, width), dtype, layout)
        shape = (layout.page_tokens, layout.kv_heads, layout.head_dim)
        values = self.stored[..., : math.prod(shape)]
        self.memory = values.view(layout.codes or dtype).view(*values.shape[:-1], *shape)
        self.scales: Tensor | None = None
        if layout.codes is not None:
            behind = self.stored[..., layout.code_bytes :].view(SCALE_DTYPE)
            self.scales = behind.view(*behind.shape[:-1], layout.kv_heads, layout.page_tokens)
        by_block = self.stored.view(-1, width)  # [pages * layers * 2, n]
        blocks = range(self.page_stride)
        # One shifted view per layer and kind: reads and writes index with page numbers only.
        self._block_views = [by_block[block:] for block in blocks]
        self._token_views: list[Tensor] = []
        if layout.codes is None:
            by_token = self.stored.view(-1, layout.kv_heads * layout.head_dim)
            self._token_views = [by_token[block * layout.page_tokens :] for block in blocks]

    def write(self, layer: int, rows: Tensor, key: Tensor, value: Tensor) -> None:
        """Store the KV of new tokens.

        Args:
            layer: Index of the layer.
            rows: `[tokens]` int64, `page * page_stride * page_tokens + offset`.
            key: `[tokens, kv_heads * head_dim]`.
            value: `[tokens, kv_heads * head_dim]`.
        """
        if self.scales is None:
            self._token_views[2 * layer].index_copy_(0, rows, key)
            self._token_views[2 * layer + 1].index_copy_(0, rows, value)
            return
        codes, scales = self.memory[:, layer], self.scales[:, layer]
        both = torch.stack((key, value), 1).view(-1, 2, *codes.shape[-2:])  # [tokens, 2, K, D]
        size = self.layout.page_tokens
        pages, offsets = rows // (self.page_stride * size), rows % size
        codes[pages, :, offsets], scales[pages, :, :, offsets] = encode_heads(both, codes.dtype)

    def copy_page(self, source: PageId, target: PageId) -> None:
        """Copy the KV of all layers of a page to another page."""
        self.stored[target].copy_(self.stored[source])

    def read(self, layer: int, blocks: Tensor, key: Tensor, value: Tensor) -> None:
        """Copy whole pages into tiles of constant size, as they are stored.

        Args:
            layer: Index of the layer.
            blocks: `[n]` int64, `page * page_stride`.
            key: `[n, width]`, filled; as wide as the last dimension of `stored`.
            value: The same, filled.
        """
        torch.index_select(self._block_views[2 * layer], 0, blocks, out=key)
        torch.index_select(self._block_views[2 * layer + 1], 0, blocks, out=value)

    def widen(self, blocks: Tensor, out: Tensor) -> None:
        """Values of whole pages in fp32.

        Args:
            blocks: `[n, width]` as `read` fills it.
            out: `[n, page_tokens * kv_heads * head_dim]` fp32, filled.
        """
        layout = self.layout
        if layout.codes is None:
            out.copy_(blocks)
            return
        shape = (layout.page_tokens, layout.kv_heads, layout.head_dim)
        wide = out.view(-1, *shape)
        wide.copy_(blocks[:, : math.prod(shape)].view(layout.codes).view(-1, *shape))
        scales = blocks[:, layout.code_bytes :].view(SCALE_DTYPE).float()
        wide.mul_(scales.view(-1, *shape[1::-1]).transpose(1, 2)[..., None])


def pages_for(
    layout: KvLayout,
    *,
    kv_pages: int,
    kv_bytes: int,
    max_tokens: int,
    step_bytes: int = 0,
    free_bytes: int | None = None,
    draft_page_bytes: int = 0,
) -> int:
    """Number of pages of the pool.

    Args:
        layout: Shape of the KV.
        kv_pages: Configured pages; 0 leaves the choice to `kv_bytes`.
        kv_bytes: Configured bytes; 0 takes a share of the free memory.
        max_tokens: Most tokens that can ever be in use.
        step_bytes: Memory that the largest step takes beside the cache; left free on a GPU.
        free_bytes: Free memory of the device; None measures it.
        draft_page_bytes: Bytes of a page of the draft model, which has as many; 0 without one.

    Raises:
        UsageError: The configured memory does not hold one page.
    """
    if kv_pages > 0:
        return kv_pages
    page_bytes = layout.page_bytes + draft_page_bytes
    if kv_bytes > 0:
        pages = kv_bytes // page_bytes
        if pages < 1:
            raise UsageError(
                f"kv_bytes={kv_bytes} holds no page: one page takes {page_bytes} bytes",
                hint="Give more KV memory, or smaller pages",
            )
        return pages
    free = _free_bytes(layout.device) if free_bytes is None else free_bytes
    share = int(free * _FREE_MEMORY_SHARES[layout.device.type])
    if layout.device.type == "cpu":
        share = min(share, _MAX_CPU_BYTES)
    else:
        share = min(share, free - step_bytes)
    max_pages = -(-max_tokens // layout.page_tokens)
    return max(1, min(share // page_bytes, max_pages))


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, layout: KvLayout) -> Tensor:
    """Zeros, since a masked position must not hold a NaN; on a CPU, mapped when first used."""
    if layout.device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=layout.device)
    size = math.prod(shape) * dtype.itemsize
    try:
        plain = np.zeros(size + _LINE_BYTES, dtype=np.uint8)
    except (MemoryError, ValueError) as error:  # the latter if no address is that large
        raise UsageError(
            f"{size / 2**30:,.0f} GiB of KV memory are more than this machine can map",
            hint=f"One page takes {layout.page_bytes} bytes: give fewer, or fewer bytes",
        ) from error
    begin = -plain.ctypes.data % _LINE_BYTES
    return torch.from_numpy(plain[begin : begin + size]).view(dtype).view(shape)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // 2
