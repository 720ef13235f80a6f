"""Small things on their way to the device and back, without waiting for what else it is doing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def to_device(values: object, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers as a tensor there. A copy from memory that is not pinned would wait for the stream.

    Args:
        values: A number, nested lists of numbers, or a tensor on the host.
        dtype: Of the tensor.
        device: Where it is wanted.
    """
    here = torch.as_tensor(values, dtype=dtype)
    if device.type == "cpu":
        return here
    return here.pin_memory().to(device, non_blocking=True)


class PendingTransfer:
    """A tensor on its way to the host.

    Waiting for it does not wait for what was launched after it.

    Args:
        there: What to bring.
    """

    __slots__ = ("_event", "_here")

    def __init__(self, there: Tensor) -> None:
        self._here = there
        self._event: Any = None
        if not there.is_cpu:
            self._here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
            self._here.copy_(there, non_blocking=True)
            new: Any = torch.cuda.Event
            self._event = new()
            self._event.record()

    def wait(self) -> Tensor:
        """It, once it is here."""
        if self._event is not None:
            self._event.synchronize()
        return self._here
