"""KV in the host's memory: what the device has no room for, and when that pays.

On a CPU both tiers are the same kind of memory and copies are done at once. On CUDA the host's side
is pinned and copies run on a stream of their own: a load tells each layer's end by an event, so
that the first layers compute while the last are still on their way.
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

LEAST_TOKENS = 32
"""Fewer are computed again: their pages are not worth a copy of their own."""

_FIRST_BYTES_S = 10e9
_FIRST_TOKENS_S = 20_000.0


@dataclass(slots=True, eq=False)
class CopyRates:
    """What copying and computing cost here, smoothed; guesses until something was measured.

    Attributes:
        page_bytes: Of a page.
        page_tokens: Of a page.
        copy_bytes_s: Between the tiers.
        prefill_tokens_s: Of prompts.
    """

    page_bytes: int
    page_tokens: int
    copy_bytes_s: float = _FIRST_BYTES_S
    prefill_tokens_s: float = _FIRST_TOKENS_S

    def note_copy(self, pages: int, seconds: float) -> None:
        """Some pages were copied."""
        if seconds > 0:
            rate = pages * self.page_bytes / seconds
            self.copy_bytes_s += 0.2 * (rate - self.copy_bytes_s)

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """Some tokens of prompts were computed."""
        if seconds > 0:
            self.prefill_tokens_s += 0.2 * (tokens / seconds - self.prefill_tokens_s)

    def swap_pays(self, tokens: int) -> bool:
        """Whether to copy the KV of `tokens` rather than to compute it."""
        return tokens >= LEAST_TOKENS and copy_pays(
            tokens / self.page_tokens * self.page_bytes,
            self.copy_bytes_s,
            tokens,
            self.prefill_tokens_s,
        )


def copy_pays(kv_bytes: float, bytes_s: float, tokens: int, tokens_s: float) -> bool:
    """Whether moving KV takes less time than computing it."""
    return kv_bytes / bytes_s < tokens / tokens_s


class CopyStream(Protocol):
    """Where copies run, and who waits for them."""

    layers: int
    """Into how many pieces a load is cut, each with an end of its own."""

    def beside(self) -> AbstractContextManager[None]:
        """Copies made within run beside the computing, after all that was launched so far."""
        ...

    def join(self) -> None:
        """What is launched from now on comes after the copies so far."""
        ...

    def mark(self, layer: int) -> None:
        """A layer's copies have been launched."""
        ...

    def wait(self, layer: int) -> None:
        """What is launched from now on comes after this layer's copies."""
        ...


class InlineCopyStream:
    """Copies are done when the call returns, all layers at once."""

    layers = 1

    def beside(self) -> AbstractContextManager[None]:
        """Here."""
        return nullcontext()

    def join(self) -> None:
        """Nothing is under way."""

    def mark(self, layer: int) -> None:
        """Nothing is under way."""

    def wait(self, layer: int) -> None:
        """Nothing is under way."""


class CudaCopyStream:
    """A CUDA stream of its own."""

    def __init__(self, layers: int, device: torch.device) -> None:
        self.layers = layers
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        new: Any = torch.cuda.Event
        self._events = [new() for _ in range(layers)]
        self._under_way = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """On the stream, which waits for what computes."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """What computes waits for the stream."""
        torch.cuda.current_stream().wait_stream(self._stream)

    def mark(self, layer: int) -> None:
        """An event stands for its end."""
        self._events[layer].record(self._stream)
        self._under_way = True

    def wait(self, layer: int) -> None:
        """What computes waits for the event."""
        if self._under_way:
            torch.cuda.current_stream().wait_event(self._events[layer])
            self._under_way = layer + 1 < self.layers


class HostCopier:
    """Copies pages between the KV memory and the host.

    Args:
        kv: The device's side.
        pages: Of the host's side.
        kernels: Whose `copy_pages` loads.
        rates: To be told what copies take.
        clock: That measures them.
        lane: Where they run.

    Attributes:
        load_s: How long the last load kept the host.
    """

    def __init__(
        self,
        kv: KvCache,
        pages: int,
        kernels: Kernels,
        rates: CopyRates,
        clock: Clock,
        lane: CopyStream,
    ) -> None:
        pinned = kv.layout.device.type == "cuda"
        memory = kv.memory  # [pages, layers, 2, page, kv_heads, head_dim]
        host = torch.empty((pages, *memory.shape[1:]), dtype=memory.dtype, pin_memory=pinned)
        self._device, self._host = memory.flatten(1), host.flatten(1)  # [pages, page_values]
        cut = (memory.shape[0], lane.layers, -1)
        self._device_layers = memory.view(cut).unbind(1)  # [pages, values of a layer] each
        self._host_layers = host.view(pages, *cut[1:]).unbind(1)
        self._kernels = kernels
        self._rates = rates
        self._clock = clock
        self._lane = lane
        self.load_s = 0.0

    def save(self, upper: Sequence[PageId], lower: Sequence[PageId]) -> None:
        """Copy pages down; what is launched next, and may overwrite them, comes after."""
        began_s = self._clock.now_s()
        with self._lane.beside():
            for start, count, to in runs(upper, lower):
                source = self._device[start : start + count]
                self._host[to : to + count].copy_(source, non_blocking=True)
        self._lane.join()
        self._note(len(upper), began_s)

    def load(self, lower: Sequence[PageId], upper: Sequence[PageId]) -> None:
        """Copy pages up, layer by layer; a forward calls `wait` before it reads a layer."""
        began_s = self._clock.now_s()
        pairs = torch.tensor([lower, upper], dtype=torch.int64).t().contiguous()
        pairs = pairs.to(self._device.device)
        pieces = zip(self._host_layers, self._device_layers, strict=True)
        with self._lane.beside():
            for layer, (source, target) in enumerate(pieces):
                self._kernels.copy_pages(source, target, pairs)
                self._lane.mark(layer)
        self.load_s = self._clock.now_s() - began_s
        self._note(len(upper), began_s)

    def wait(self, layer: int) -> None:
        """What is launched from now on finds the layer's pages."""
        self._lane.wait(layer)

    def _note(self, pages: int, began_s: float) -> None:
        if isinstance(self._lane, InlineCopyStream):  # elsewhere the host does not see the end
            self._rates.note_copy(pages, self._clock.now_s() - began_s)


def runs(here: Sequence[PageId], there: Sequence[PageId]) -> list[tuple[int, int, int]]:
    """Pages that follow each other on both sides, as (first here, how many, first there)."""
    pairs = list(zip(here, there, strict=True))
    cuts = [
        at
        for at, (one, other) in enumerate(pairwise(pairs), start=1)
        if other[0] != one[0] + 1 or other[1] != one[1] + 1
    ]
    edges = [0, *cuts, len(pairs)] if pairs else []
    return [(pairs[at][0], end - at, pairs[at][1]) for at, end in pairwise(edges)]


class TimedCopier(Copier, Protocol):
    """A copier that tells what a load took."""

    @property
    def load_s(self) -> float:
        """How long the last load kept the host."""
        ...


CopierT_co = TypeVar("CopierT_co", bound=TimedCopier, covariant=True)


@dataclass(frozen=True, slots=True)
class OffloadCache(Generic[CopierT_co]):
    """The host's tier of one engine.

    Attributes:
        tier: What it holds.
        copier: Who fills it.
        rates: Whether that pays.
    """

    tier: OffloadTier
    copier: CopierT_co
    rates: CopyRates


def open_offload(
    config: EngineConfig, kv: KvCache, kernels: Kernels, clock: Clock
) -> OffloadCache[HostCopier] | None:
    """The host's tier, or None where the budget is 0.

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
    lane = CudaCopyStream(kv.layout.layers, device) if device.type == "cuda" else InlineCopyStream()
    copier = HostCopier(kv, pages, kernels, rates, clock, lane)
    return OffloadCache(OffloadTier(pages, config.page_tokens, copier), copier, rates)
