"""Which set of kernels a model runs on, and why; and the set that needs no compiler.

"torch" computes attention in tiles (`attention`) and the rest with torch's own operations. It runs
anywhere, and is what a CPU without a compiler gets.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from agentrt.config import Device, KernelChoice
from agentrt.engine.attention import current
from agentrt.engine.draws import draw_rows
from agentrt.engine.threads import Wait
from agentrt.errors import EngineUnavailable
from agentrt_kernels import load
from agentrt_kernels.contract import HeadNorms, Kernels, KernelsUnavailable, PagedRows, Score
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.reference import Reference

_log = logging.getLogger(__name__)
_BEST: dict[Device, KernelChoice] = {"cuda": "triton", "cpu": "cpu"}
_SPINS: dict[Wait, int] = {"passive": 1_000, "active": 40_000}
"""How often a native thread looks before it sleeps: about ten microseconds, and half a
millisecond, which is as long as the engine needs between two steps."""


@dataclass(frozen=True, slots=True)
class ChosenKernels:
    """A set, and why it is this one.

    Attributes:
        kernels: The set.
        reason: For people.
        fell_back: It is not the one that is best on this device, and nobody asked for it.
    """

    kernels: Kernels
    reason: str
    fell_back: bool = False


class TorchKernels(Reference):
    """torch's fused operations where it has them, tiles for attention, the reference elsewhere."""

    name = "torch"

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float, out: Tensor) -> None:
        """See `Kernels.rms_norm`."""
        out.copy_(functional.rms_norm(x, weight.shape, weight, epsilon))

    def add_rms_norm(
        self, delta: Tensor, residual: Tensor, weight: Tensor, epsilon: float, out: Tensor
    ) -> None:
        """See `Kernels.add_rms_norm`."""
        residual.add_(delta)
        out.copy_(functional.rms_norm(residual, weight.shape, weight, epsilon))

    def silu_mul(self, gate_up: Tensor, out: Tensor) -> None:
        """See `Kernels.silu_mul`."""
        gate, up = gate_up.chunk(2, -1)
        torch.mul(functional.silu(gate), up, out=out)

    def rope_store(
        self,
        qkv: Tensor,
        positions: Tensor,
        angles: Tensor,
        rows: Tensor,
        norms: HeadNorms | None,
        layer_pages: Tensor,
        query: Tensor,
    ) -> None:
        """See `Kernels.rope_store`."""
        heads, page, pairs = query.shape[1], layer_pages.shape[2], layer_pages.shape[3]
        turning = qkv[:, : heads + pairs]
        if norms is not None:
            width = norms.query.shape
            first = functional.rms_norm(turning[:, :heads], width, norms.query, norms.epsilon)
            second = functional.rms_norm(turning[:, heads:], width, norms.key, norms.epsilon)
            turning = torch.cat((first, second), 1)
        cos, sin = angles[positions].to(qkv.dtype)[:, None].chunk(2, -1)  # [T, 1, D / 2]
        cos, sin = torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
        half = cos.shape[-1] // 2
        swapped = torch.cat((turning[..., half:], turning[..., :half]), -1)
        turned = torch.addcmul(turning * cos, swapped, sin)
        query.copy_(turned[:, :heads])
        if bool((rows < 0).any()):
            kept = rows >= 0
            rows, turned, qkv = rows[kept], turned[kept], qkv[kept]
        numbers = rows // page
        pair = torch.stack((turned[:, heads:], qkv[:, heads + pairs :]), 1)  # [T, 2, K, D]
        layer_pages[numbers, :, rows - numbers * page] = pair

    def attend(
        self, query: Tensor, layer_pages: Tensor, rows: PagedRows, score: Score, out: Tensor
    ) -> None:
        """See `Kernels.attend`; `rows` are those of the batch that the engine has begun."""
        layer = layer_pages.storage_offset() // layer_pages.stride(1) // 2
        current().over_pages(layer, query, score, out)

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
        draw_rows(logits, mask, temperature, top_k, top_p, min_p, uniform, out)

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """See `Kernels.grouped_linear`."""
        for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
            torch.mm(x[start:stop], weight[expert].t(), out=out[start:stop])


def choose_kernels(asked: KernelChoice, device: Device, dtype: torch.dtype) -> ChosenKernels:
    """The set to run on.

    Args:
        asked: What the configuration asks for.
        device: Where the model is.
        dtype: What it computes in.

    Raises:
        EngineUnavailable: The set that was asked for cannot run here.
    """
    if asked == "torch":
        return ChosenKernels(TorchKernels(), "asked for")
    if asked != "auto":
        try:
            return ChosenKernels(_load(asked, device, dtype), "asked for")
        except KernelsUnavailable as error:
            raise EngineUnavailable(
                f"kernels={asked} cannot run here: {error}", hint="Use kernels=auto"
            ) from error
    best = _BEST[device]
    try:
        return ChosenKernels(_load(best, device, dtype), f"the best on {device}")
    except KernelsUnavailable as error:
        reason = f"{best} kernels cannot run here: {error}"
        _log.warning("%s; torch's own operations take their place", reason)
        return ChosenKernels(TorchKernels(), reason, fell_back=True)


def waits_of(kernels: Kernels) -> tuple[Wait, ...]:
    """Ways to wait that can be set while it runs: torch's own threads wait as they were told."""
    return ("passive", "active") if isinstance(kernels, CpuKernels) else ("passive",)


def use_threads(kernels: Kernels, threads: int, wait: Wait = "passive") -> None:
    """Compute with so many threads from now on, in torch and in the set."""
    torch.set_num_threads(threads)
    if isinstance(kernels, CpuKernels):
        kernels.use_threads(threads, spins=_SPINS[wait])


def _load(name: KernelChoice, device: Device, dtype: torch.dtype) -> Kernels:
    if name == "cpu" and device != "cpu":
        raise KernelsUnavailable(f"they compute on a CPU, not on {device}")
    if name == "cpu" and dtype not in (torch.float32, torch.bfloat16):
        raise KernelsUnavailable(f"they compute in float32 and bfloat16, not in {dtype}")
    return load(name)
