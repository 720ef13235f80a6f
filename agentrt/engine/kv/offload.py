"""KV offload (HiCache): copies of KV to CPU memory and back, and when a reload pays.

On a CPU both tiers are the same kind of memory, and copies are done at once. On CUDA the host side
is pinned, and copies run on a stream of their own. A reload records an event per layer, so that the
first layers compute while the last are still being copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import torch

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.kv.cache import KvCache
from agentrt.kv_cache import OffloadTier
from agentrt.kv_cache.offload_tier import Copier
from agentrt_kernels.contract import Kernels

MIN_COPY_TOKENS = 32
"""Shorter prefixes are recomputed: their pages are not worth a copy of their own."""


_INITIAL_COPY_BYTES_S = 10e9
_INITIAL_PREFILL_TOKENS_S = 20_000.0


@dataclass(slots=True, eq=False)
class CopyRates:
    """Speeds of copying and computing on this machine, smoothed; guesses until measured.

    Attributes:
        page_bytes: Bytes of a page.
        page_tokens: Tokens of a page.
        copy_bytes_s: Bytes copied between the tiers, per second.
        prefill_tokens_s: Prompt tokens computed, per second.
    """

    page_bytes: int
    page_tokens: int
    copy_bytes_s: float = _INITIAL_COPY_BYTES_S
    prefill_tokens_s: float = _INITIAL_PREFILL_TOKENS_S

    def note_copy(self, pages: int, seconds: float) -> None:
        """Learn from a copy of `pages` pages."""
        if seconds > 0:
            rate = pages * self.page_bytes / seconds
            self.copy_bytes_s += 0.2 * (rate - self.copy_bytes_s)

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """Learn from a prefill of `tokens` tokens."""
        if seconds > 0:
            self.prefill_tokens_s += 0.2 * (tokens / seconds - self.prefill_tokens_s)

    def swap_pays(self, tokens: int) -> bool:
        """Whether to copy the KV of `tokens` rather than to recompute it."""
        return tokens >= MIN_COPY_TOKENS and copy_pays(
            tokens / self.page_tokens * self.page_bytes,
            self.copy_bytes_s,
            tokens,
            self.prefill_tokens_s,
        )


def copy_pays(kv_bytes: float, bytes_s: float, tokens: int, tokens_s: float) -> bool:
    """Whether copying KV takes less time than computing it."""
    return kv_bytes / bytes_s < tokens / tokens_s


class CopyStream:
    """Stream on which KV copies run. Here they are done when the call returns, all layers at once.

    Attributes:
        layers: Pieces into which a reload is cut, each with an event of its own.
        is_synchronous: Whether copies are done when the call returns.
    """

    layers = 1
    is_synchronous = True

    def activate(self) -> AbstractContextManager[None]:
        """Run copies made within beside the computation, after all launched so far."""
        return nullcontext()

    def wait_all(self) -> None:
        """Order everything launched from now on after the copies so far."""

    def record_layer(self, layer: int) -> None:
        """Record that a layer's copies have been launched."""

    def wait_layer(self, layer: int) -> None:
        """Order everything launched from now on after this layer's copies."""


class CudaCopyStream(CopyStream):
    """A CUDA stream for copies."""

    is_synchronous = False

    def __init__(self, layers: int, device: torch.device) -> None:
        self.layers = layers
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        new: Any = torch.cuda.Event
        self._events = [new() for _ in range(layers)]
        self._copying = False

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make the copy stream current, after all launched on the compute stream."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def wait_all(self) -> None:
        """Make the compute stream wait for the copy stream."""
        torch.cuda.current_stream().wait_stream(self._stream)

    def record_layer(self, layer: int) -> None:
        """Record an event behind the layer's copies."""
        self._events[layer].record(self._stream)
        self._copying = True

    def wait_layer(self, layer: int) -> None:
        """Make the compute stream wait for the layer's event."""
        if self._copying:
            torch.cuda.current_stream().wait_event(self._events[layer])
            self._copying = layer + 1 < self.layers


class HostCopier:
    """Copies pages between the KV cache on the device and CPU memory.

    Args:
        kv: KV cache on the device.
        pages: Pages in CPU memory.
        kernels: Kernel set; its `copy_pages` reloads.
        rates: Learns the speed of copies.
        clock: Clock that times them.
        stream: Stream on which they run.

    Attributes:
        load_s: Seconds for which the last load blocked the calling thread.
    """

    def __init__(
        self,
        kv: KvCache,
        pages: int,
        kernels: Kernels,
        rates: CopyRates,
        clock: Clock,
        stream: CopyStream,
    ) -> None:
        pinned = kv.layout.device.type == "cuda"
        stored = kv.stored  # [pages, layers, 2, n]
        host = torch.empty((pages, *stored.shape[1:]), dtype=stored.dtype, pin_memory=pinned)
        self._device, self._host = stored.flatten(1), host.flatten(1)  # [pages, page_values]
        layer_shape = (stored.shape[0], stream.layers, -1)
        self._device_layers = stored.view(layer_shape).unbind(1)  # [pages, values of a layer] each
        self._host_layers = host.view(pages, *layer_shape[1:]).unbind(1)
        self._kernels = kernels
        self._rates = rates
        self._clock = clock
        self._stream = stream
        self.load_s = 0.0

    def save(self, device_pages: Sequence[PageId], host_pages: Sequence[PageId]) -> None:
        """Copy pages to CPU memory; anything launched later, which may overwrite them, waits."""
        began_s = self._clock.now_s()
        with self._stream.activate():
            for start, count, to in contiguous_runs(device_pages, host_pages):
                source = self._device[start : start + count]
                self._host[to : to + count].copy_(source, non_blocking=True)
        self._stream.wait_all()
        self._note_copy(len(device_pages), began_s)

    def load(self, host_pages: Sequence[PageId], device_pages: Sequence[PageId]) -> None:
        """Copy pages to the device layer by layer; forwards call `wait_layer` before each layer."""
        began_s = self._clock.now_s()
        pairs = torch.tensor([host_pages, device_pages], dtype=torch.int64).t().contiguous()
        pairs = pairs.to(self._device.device)
        pieces = zip(self._host_layers, self._device_layers, strict=True)
        with self._stream.activate():
            for layer, (source, target) in enumerate(pieces):
                self._kernels.copy_pages(source, target, pairs)
                self._stream.record_layer(layer)
        self.load_s = self._clock.now_s() - began_s
        self._note_copy(len(device_pages), began_s)

    def wait_layer(self, layer: int) -> None:
        """Order everything launched from now on after the layer's copies."""
        self._stream.wait_layer(layer)

    def _note_copy(self, pages: int, began_s: float) -> None:
        if self._stream.is_synchronous:  # on CUDA the call returns too early
            self._rates.note_copy(pages, self._clock.now_s() - began_s)


def contiguous_runs(
    sources: Sequence[PageId], targets: Sequence[PageId]
) -> list[tuple[int, int, int]]:
    """Runs of pages that are contiguous on both sides: (first source, count, first target)."""
    pairs = list(zip(sources, targets, strict=True))
    cuts = [
        at
        for at, (one, other) in enumerate(pairwise(pairs), start=1)
        if other[0] != one[0] + 1 or other[1] != one[1] + 1
    ]
    edges = [0, *cuts, len(pairs)] if pairs else []
    return [(pairs[at][0], end - at, pairs[at][1]) for at, end in pairwise(edges)]


class TimedCopier(Copier, Protocol):
    """A copier that times its loads."""

    @property
    def load_s(self) -> float:
        """Seconds for which the last load blocked the calling thread."""
        ...


CopierT_co = TypeVar("CopierT_co", bound=TimedCopier, covariant=True)


@dataclass(frozen=True, slots=True)
class OffloadCache(Generic[CopierT_co]):
    """KV offload of one engine.

    Attributes:
        tier: Index of the offloaded prefixes.
        copier: Copies pages between the tiers.
        rates: Decides whether a copy pays.
    """

    tier: OffloadTier
    copier: CopierT_co
    rates: CopyRates


def open_offload(
    config: EngineConfig, kv: KvCache, kernels: Kernels, clock: Clock
) -> OffloadCache[HostCopier] | None:
    """Open the KV offload tier, or return None if its budget is 0.

    Raises:
        UsageError: The budget does not hold one page.
    """
    size = kv.layout.page_bytes
    pages = config.host_kv_bytes // size
    if config.host_kv_bytes and not pages:
        raise UsageError(
            f"host_kv_bytes={config.host_kv_bytes} holds no page: one page takes {size} bytes",
            hint="Give more memory, or 0 to keep no KV on the host",
        )
    if not pages:
        return None
    rates = CopyRates(size, config.page_tokens)
    device = kv.layout.device
    on_cuda = device.type == "cuda"
    stream = CudaCopyStream(kv.layout.layers, device) if on_cuda else CopyStream()
    copier = HostCopier(kv, pages, kernels, rates, clock, stream)
    return OffloadCache(OffloadTier(pages, config.page_tokens, copier), copier, rates)
