"""A safetensors file whose tensors each begin a line of the cache once it is memory-mapped.

Reading it into large pages instead would copy what the system holds already: that took four times
as long for 600 MB as all else of a start, and steps were no faster for it.
"""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import torch
from torch import Tensor

from agentrt.base.errors import InternalError, ModelInvalid

ALIGNED_BYTES = 64
_DTYPES = {
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "U8": torch.uint8,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ENTRY_BYTES = 192
_MOST_HEADER_BYTES = 100 << 20


class AlignedWriter:
    """Writes tensors one after the other, so that memory holds one; use it in a `with` statement.

    Args:
        path: The new file.
        most_tensors: Most tensors that will be added: the header stands before them, and is
            written last.
    """

    def __init__(self, path: Path, most_tensors: int) -> None:
        self._file: BinaryIO = path.open("wb")
        self._header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        lines = -(-_ENTRY_BYTES * (most_tensors + 1) // ALIGNED_BYTES)
        self._header_bytes = lines * ALIGNED_BYTES - 8  # tensors begin a line of the file, too
        self._file.write(b" " * (8 + self._header_bytes))
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            text = json.dumps(self._header, separators=(",", ":")).encode()
            if len(text) > self._header_bytes:
                raise InternalError(f"{self._file.name} holds more tensors than were announced")
            self._file.seek(0)
            self._file.write(self._header_bytes.to_bytes(8, "little") + text)
        self._file.close()

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a dense tensor whose bytes fill lines of the cache.

        Raises:
            InternalError: They do not.
        """
        if tensor.nbytes % ALIGNED_BYTES or not tensor.is_contiguous():
            raise InternalError(f"{name} of {tensor.nbytes} bytes would shift what follows")
        begin, self._end = self._end, self._end + tensor.nbytes
        self._header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, self._end],
        }
        tensor.view(torch.uint8).flatten().numpy().tofile(self._file)


def read_aligned(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, memory-mapped, so that processes share them.

    Raises:
        ModelInvalid: The file is cut, or is no such file.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = path.stat().st_size
            header_bytes = int.from_bytes(file.read(8), "little")
            if not 0 < header_bytes <= min(_MOST_HEADER_BYTES, size - 9):
                raise ValueError("it has no header")
            header = json.loads(file.read(header_bytes))
            if (8 + header_bytes) % ALIGNED_BYTES:
                raise ValueError("its tensors begin within a line of the cache")
            places = _places(header, size - 8 - header_bytes)
            block = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            if hasattr(mmap, "MADV_WILLNEED"):
                block.madvise(mmap.MADV_WILLNEED)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelInvalid(
            f"{path} cannot be read: {error}", hint="Compile the model again, or copy it again"
        ) from error
    whole = torch.frombuffer(block, dtype=torch.uint8)[8 + header_bytes :]
    return {
        name: whole[begin:end].view(dtype).view(shape)
        for name, (dtype, shape, begin, end) in places.items()
    }


_Place = tuple[torch.dtype, tuple[int, ...], int, int]


def _places(header: dict[str, Any], size: int) -> dict[str, _Place]:
    """Type, shape, beginning and end of each tensor, which fill `size` bytes without a gap."""
    found: dict[str, _Place] = {}
    last = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = _DTYPES[entry["dtype"]]
        shape = tuple(int(one) for one in entry["shape"])
        begin, end = (int(one) for one in entry["data_offsets"])
        fits = min(shape, default=1) > 0 and end - begin == math.prod(shape) * dtype.itemsize
        if begin != last or not fits or begin % ALIGNED_BYTES:
            raise ValueError(f"{name[:80]} does not lie where it should")
        found[name], last = (dtype, shape, begin, end), end
    if last != size:
        raise ValueError(f"it has {size} bytes of tensors, not {last}")
    return found
