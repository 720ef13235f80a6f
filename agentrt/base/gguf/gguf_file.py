"""A GGUF file, memory-mapped: typed metadata, and the place of each tensor.

All that a header claims is checked against the bytes that are there before it is used: counts,
lengths, types, alignment and offsets. Arrays are passed over, and decoded when they are read.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.byte_cursor import LENGTH, ByteCursor, OutOfBounds
from agentrt.base.gguf.tensor_type import TENSOR_TYPES, TensorType
from agentrt.base.model_json import MAX_MODEL_FILE_BYTES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEY_BYTES = 65_535
MOST_NAME_BYTES = 1_024
MOST_DIMENSIONS = 4

_FORMS = {
    number: struct.Struct(f"<{form}")
    for number, form in {
        **{0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f"},
        **{7: "?", 10: "Q", 11: "q", 12: "d"},
    }.items()
}
_FLOAT, _STRING, _ARRAY = 6, 8, 9
_U32, _I32, _U64 = struct.Struct("<I"), struct.Struct("<i"), LENGTH
_DEFAULT_ALIGNMENT = 32
_MOST_VALUES = 1 << 48


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One tensor of a file.

    Attributes:
        shape: Shape, rows first, as `[out, in]`; the file lists it the other way round.
        type: How its values are stored.
        start: Offset of its first byte in the file.
        size: Number of bytes.
    """

    shape: tuple[int, ...]
    type: TensorType
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class _Array:
    kind: int
    count: int
    start: int


class GgufFile:
    """A file whose header has been checked.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "empty.gguf")
        ...     size = path.write_bytes(b"GGUF" + bytes([3, *[0] * 19]))
        ...     list(GgufFile(path).names())
        []

    Attributes:
        path: The file.
        tensors: Tensors by name, in the order of the header.
        header_digest: Digest of the header: of everything but the weights.
    """

    def __init__(self, path: Path) -> None:
        """Map a file and check its header; use `open_gguf`.

        Raises:
            ModelInvalid: The file is missing, cut off or not GGUF.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    raise self.invalid("it is empty")
                # Private to this process: tensors of torch want memory that may be written.
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError:
            raise ModelInvalid(
                f"there is no file {path}", hint="Give --model the path of a GGUF file"
            ) from None
        except OSError as error:
            raise ModelInvalid(
                f"cannot read {path}: {error}", hint="Copy the file again"
            ) from error
        self._fields: dict[str, Any] = {}
        self.tensors: dict[str, TensorPlace] = {}
        cursor = ByteCursor(self._data, min(len(self._data), MAX_MODEL_FILE_BYTES))
        try:
            self._read_header(cursor)
        except OutOfBounds as error:
            raise self.invalid(f"its header claims {error}") from None
        self.header_digest = hashlib.blake2b(
            memoryview(self._data)[: cursor.at], digest_size=16
        ).hexdigest()

    @property
    def data(self) -> mmap.mmap:
        """The bytes of the file; writes stay in this process."""
        return self._data

    def invalid(self, why: str) -> ModelInvalid:
        """The error of a file that is not whole."""
        return ModelInvalid(
            f"{self.path} is no whole GGUF file: {why}", hint="Copy or convert the file again"
        )

    def __contains__(self, name: str) -> bool:
        """Whether the metadata has a value of this name."""
        return name in self._fields

    def names(self) -> Iterator[str]:
        """Names of all metadata."""
        return iter(self._fields)

    def text(self, name: str, default: str | None = None) -> str:
        """A text of the metadata.

        Args:
            name: Name of the value.
            default: Value if the file has none; without a default, that is an error.

        Raises:
            ModelInvalid: The value is missing or no text.
        """
        return self._decoded(self._typed(name, bytes, "text", default), name)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number of the metadata, as `text`."""
        value: int = self._typed(name, int, "whole number", default)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number of the metadata, as `text`."""
        value = float(self._typed(name, (float, int), "number", default))
        if not math.isfinite(value):
            raise self.invalid(f"{name} is {value}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A truth value of the metadata, as `text`."""
        value: bool = self._typed(name, bool, "truth value", default)
        return value

    def scalar(self, name: str) -> Any:
        """A value of the metadata of whatever type, bytes for a text; None for an array or none."""
        value = self._fields.get(name)
        return None if isinstance(value, _Array) else value

    def texts(self, name: str) -> list[str]:
        """An array of texts; [] if there is none.

        Raises:
            ModelInvalid: The value is something else.
        """
        array = self._array(name)
        if array is None:
            return []
        if array.kind != _STRING:
            raise self.invalid(f"{name} is no list of texts")
        cursor = ByteCursor(self._data, len(self._data))
        cursor.at = array.start
        try:
            return [text.decode("utf-8") for text in cursor.texts(array.count)]
        except UnicodeDecodeError:
            raise self.invalid(f"{name} is not UTF-8") from None

    def numbers(self, name: str) -> list[Any]:
        """An array of numbers; [] if there is none.

        Raises:
            ModelInvalid: The value is something else.
        """
        array = self._array(name)
        if array is None:
            return []
        if array.kind == _STRING:
            raise self.invalid(f"{name} is no list of numbers")
        form = _FORMS[array.kind].format[1:]
        return list(struct.unpack_from(f"<{array.count}{form}", self._data, array.start))

    def _typed(self, name: str, kinds: Any, what: str, default: Any) -> Any:
        value = self._fields.get(name)
        if value is None:
            if default is None:
                raise self.invalid(f"it does not say {name}")
            return default.encode() if isinstance(default, str) else default
        if not isinstance(value, kinds) or (kinds is not bool and isinstance(value, bool)):
            raise self.invalid(f"{name} is no {what}")
        return value

    def _array(self, name: str) -> _Array | None:
        value = self._fields.get(name)
        if value is None or isinstance(value, _Array):
            return value
        raise self.invalid(f"{name} is no list")

    def _decoded(self, text: bytes, name: str) -> str:
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError:
            raise self.invalid(f"{name} is not UTF-8") from None

    def _read_header(self, cursor: ByteCursor) -> None:
        start = cursor.skip(len(MAGIC))
        if self._data[start : cursor.at] != MAGIC:
            raise self.invalid("it does not begin with GGUF")
        version = cursor.number(_U32)
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            what = "for big-endian machines" if swapped else f"of version {version}"
            raise self.invalid(f"it is {what}, and versions 2 and 3 are read, little-endian")
        tensors, fields = cursor.number(_U64), cursor.number(_U64)
        for _ in range(fields):
            name = self._decoded(cursor.text_bytes(MOST_KEY_BYTES), "a name")
            if name in self._fields:
                raise self.invalid(f"it says {name} twice")
            self._fields[name] = self._value(cursor, name)
        alignment = self.integer("general.alignment", _DEFAULT_ALIGNMENT)
        if not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise self.invalid(f"general.alignment is {alignment}, no power of two from 8")
        found = [self._tensor(cursor) for _ in range(tensors)]
        begin = -(-cursor.at // alignment) * alignment
        for name, place in found:
            if name in self.tensors:
                raise self.invalid(f"it holds {name} twice")
            if place.start % alignment:
                raise self.invalid(f"{name} begins at {place.start}, off its alignment")
            if begin + place.start + place.size > len(self._data):
                raise self.invalid(f"it ends before {name} does")
            self.tensors[name] = TensorPlace(
                place.shape, place.type, begin + place.start, place.size
            )

    def _value(self, cursor: ByteCursor, name: str) -> Any:
        kind = cursor.number(_U32)
        if kind in _FORMS:
            value = cursor.number(_FORMS[kind])
            return _decimal(value) if kind == _FLOAT else value
        if kind == _STRING:
            return cursor.text_bytes(MAX_MODEL_FILE_BYTES)
        if kind != _ARRAY:
            raise self.invalid(f"{name} is of the unknown type {kind}")
        of, count = cursor.number(_U32), cursor.number(_U64)
        if of == _STRING:
            return _Array(of, count, cursor.skip_texts(count))
        if of not in _FORMS:
            raise self.invalid(f"{name} is a list of the unknown type {of}")
        return _Array(of, count, cursor.skip(count * _FORMS[of].size))

    def _tensor(self, cursor: ByteCursor) -> tuple[str, TensorPlace]:
        """A tensor, its start counted from that of all tensors."""
        name = self._decoded(cursor.text_bytes(MOST_NAME_BYTES), "a tensor's name")
        dimensions = cursor.number(_U32)
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise self.invalid(f"{name} has {dimensions} dimensions")
        sizes = [cursor.number(_U64) for _ in range(dimensions)]
        number, start = cursor.number(_I32), cursor.number(_U64)
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise self.invalid(f"{name} is of the unknown type {number}")
        values = math.prod(sizes)
        if not 0 < values < _MOST_VALUES or sizes[0] % kind.block_values:
            raise self.invalid(f"{name} is {sizes} in {kind.name}")
        size = values // kind.block_values * kind.block_bytes
        return name, TensorPlace(tuple(reversed(sizes)), kind, start, size)


def _decimal(value: float) -> float:
    """The shortest decimal that a number of 32 bits may have been: 1e-6, not 9.99999997e-7."""
    if not math.isfinite(value):
        return value
    bits = _FORMS[_FLOAT].pack(value)
    decimals = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((one for one in decimals if _FORMS[_FLOAT].pack(one) == bits), value)


def open_gguf(path: Path) -> GgufFile:
    """Map a GGUF file and check its header; the same file is read once.

    Raises:
        ModelInvalid: The file is missing, cut off or not GGUF.
    """
    try:
        fact = path.stat()
    except OSError:
        return GgufFile(path)  # for its error
    return _opened(path, fact.st_size, fact.st_mtime_ns)


@lru_cache(maxsize=2)
def _opened(path: Path, size: int, changed_ns: int) -> GgufFile:
    return GgufFile(path)
