"""Copies of experts from host memory to the device, in order with the products that read them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from agentrt_kernels.cpu.linear import fresh_memory


class ExpertCopies:
    """Copies that are done when the call returns, as those within a CPU's memory are."""

    def beside(self) -> AbstractContextManager[None]:
        """Run copies made within beside the computation, after all launched so far."""
        return nullcontext()

    def arrival(self) -> Any:
        """A mark behind the copies so far."""
        return None

    def await_arrival(self, mark: Any) -> None:
        """Order everything launched from now on after a mark of `arrival`."""


class CudaExpertCopies(ExpertCopies):
    """Copies on a CUDA stream of their own.

    Args:
        device: Device that they go to.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def beside(self) -> Iterator[None]:
        """See `ExpertCopies`."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def arrival(self) -> Any:
        """See `ExpertCopies`."""
        return self._stream.record_event()

    def await_arrival(self, mark: Any) -> None:
        """See `ExpertCopies`."""
        torch.cuda.current_stream().wait_event(mark)


def copies_to(device: torch.device) -> ExpertCopies:
    """The copies that suit a device."""
    return CudaExpertCopies(device) if device.type == "cuda" else ExpertCopies()


def pinned(tensor: Tensor) -> Tensor:
    """A copy in host memory that a GPU reads by itself.

    torch's allocator of such memory takes the next power of two, which for experts may be twice as
    much as there is. Memory that cannot be pinned is copied more slowly, but copied.
    """
    memory = fresh_memory(tensor.nbytes)
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    address = memory.data_ptr()
    if int(runtime.cudaHostRegister(address, tensor.nbytes, 0)) == 0:
        weakref.finalize(memory, runtime.cudaHostUnregister, address)
    return memory.view(tensor.dtype).view(tensor.shape).copy_(tensor)
