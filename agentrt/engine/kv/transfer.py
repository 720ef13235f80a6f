"""Small transfers to the device and back, which wait for no other work of the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def to_device(values: object, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers as a tensor on the device, copied from pinned memory.

    A copy from memory that is not pinned would wait for the stream.

    Args:
        values: A number, nested lists of numbers, or a CPU tensor.
        dtype: Type of the tensor.
        device: Target device.
    """
    tensor = torch.as_tensor(values, dtype=dtype)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class PendingTransfer:
    """A tensor on its way to CPU memory.

    Waiting for it does not wait for work launched after it.

    Args:
        tensor: The tensor to copy.
    """

    __slots__ = ("_event", "_host_tensor")

    def __init__(self, tensor: Tensor) -> None:
        self._host_tensor = tensor
        self._event: Any = None
        if not tensor.is_cpu:
            self._host_tensor = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host_tensor.copy_(tensor, non_blocking=True)
            new: Any = torch.cuda.Event
            self._event = new()
            self._event.record()

    def wait(self) -> Tensor:
        """The copy, once it is complete."""
        if self._event is not None:
            self._event.synchronize()
        return self._host_tensor
