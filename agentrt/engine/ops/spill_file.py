"""A file without a name for what memory shall not hold: written once, read where it is mapped.

It lies in the user's cache folder, for the system's folder of temporary files is often memory
itself. The system takes pages of it back whenever it likes, and the file goes with the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.errors import EngineUnavailable
from agentrt.base.user_folders import cache_folder

_SEGMENT_BYTES = 1 << 30
"""Bytes that are mapped at once: each mapping takes a file descriptor. What is not written takes no
room on the disk."""
_POPULATE_READ = 22
"""`MADV_POPULATE_READ` of Linux 5.14, which Python does not name."""


class NamelessFile:
    """An open file that is in no folder any longer; it is closed with the last reference.

    Args:
        folder: Folder of the disk that holds it.

    Attributes:
        descriptor: Number by which the system knows it.

    Raises:
        OSError: No file can be made there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.descriptor, name = tempfile.mkstemp(dir=folder)
        weakref.finalize(self, os.close, self.descriptor)
        os.unlink(name)


@dataclass(frozen=True, slots=True)
class SpilledBytes:
    """Some bytes of the file.

    Attributes:
        values: uint8 `[bytes]`, mapped, from the beginning of a page on; never to be written.
        file: The file.
        offset: First byte in the file.
        segment: Mapping that holds them.
        place: First byte in the mapping.
    """

    values: Tensor
    file: NamelessFile
    offset: int
    segment: mmap.mmap
    place: int

    def read(self, out: Tensor) -> None:
        """Copy them to `out`, dense uint8 `[bytes]`.

        Raises:
            EngineUnavailable: The file cannot be read.
        """
        into, at = memoryview(out.numpy().data), self.offset
        while into:
            try:
                got = os.preadv(self.file.descriptor, [into], at)
            except OSError as error:
                raise _unusable(error) from error
            if not got:
                raise _unusable(OSError("it has become shorter"))
            into, at = into[got:], at + got

    def want(self) -> None:
        """Tell the system that they are read next, from beginning to end."""
        if hasattr(self.segment, "madvise"):
            size = self.values.numel()
            try:
                self.segment.madvise(_POPULATE_READ, self.place, size)
            except OSError:  # an older kernel reads them when they are touched
                self.segment.madvise(mmap.MADV_WILLNEED, self.place, size)


class SpillFile:
    """The file, which grows at its end.

    Args:
        folder: Where it lies; None takes the cache folder.
        segment_bytes: Bytes that are mapped at once, of whole pages.

    Raises:
        EngineUnavailable: No file can be made there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     spilled = SpillFile(Path(folder)).add(torch.tensor([1, 2], dtype=torch.uint8))
        >>> spilled.values
        tensor([1, 2], dtype=torch.uint8)
    """

    def __init__(self, folder: Path | None = None, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self._folder = folder or cache_folder(os.environ) / "spilled"
        self._segment_bytes = segment_bytes
        self._begin = self._used = 0  # of the last segment
        self._segment: mmap.mmap | None = None
        self._mapped = torch.empty(0, dtype=torch.uint8)
        try:
            self._file = NamelessFile(self._folder)
        except OSError as error:
            raise _unusable(error, self._folder) from error

    def add(self, values: Tensor) -> SpilledBytes:
        """Write the dense uint8 `values`, at least one.

        Raises:
            EngineUnavailable: The file cannot be written.
        """
        data, size = memoryview(values.numpy().data), values.numel()
        try:
            if self._segment is None or size > self._mapped.numel() - self._used:
                self._map(max(self._segment_bytes, _pages(size)))
            place = self._used
            offset = at = self._begin + place
            while data:
                written = os.pwrite(self._file.descriptor, data, at)
                data, at = data[written:], at + written
        except OSError as error:
            raise _unusable(error, self._folder) from error
        self._used += _pages(size)
        assert self._segment is not None
        mapped = self._mapped[place : place + size]
        return SpilledBytes(mapped, self._file, offset, self._segment, place)

    def add_tensor(self, tensor: Tensor) -> Tensor:
        """The same values, mapped: of that dtype and shape on the CPU, never to be written.

        Raises:
            EngineUnavailable: The file cannot be written.
        """
        dense = tensor.cpu().contiguous()
        mapped = self.add(dense.view(-1).view(torch.uint8)).values
        return mapped.view(dense.dtype).view(dense.shape)

    def _map(self, size: int) -> None:
        """Map a new segment of so many bytes behind the last one."""
        self._begin += self._mapped.numel()
        os.truncate(self._file.descriptor, self._begin + size)
        self._segment = mmap.mmap(self._file.descriptor, size, offset=self._begin)
        self._mapped, self._used = torch.frombuffer(self._segment, dtype=torch.uint8), 0


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _unusable(error: OSError, folder: Path | None = None) -> EngineUnavailable:
    where = "" if folder is None else f" in {folder}"
    return EngineUnavailable(
        f"the file of experts that memory does not hold{where} fails: {error.strerror or error}",
        hint="Point XDG_CACHE_HOME to a disk with room for all experts, or leave --expert-memory",
    )
