"""msgpack frames: how the contracts cross a process.

A `Wire` is made from the dataclasses that may travel in one direction and reads their type hints
once. A value becomes a msgpack array of its class name and its fields in order; a frame has four
bytes of length before it. Input is checked against the type hints, so that a malformed frame is an
error with its location, never a wrong value.
"""

from __future__ import annotations

import dataclasses
import struct
import threading
import types
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Literal, NewType, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import msgpack

from agentrt.base.errors import AgentrtError, InternalError

MAX_FRAME_BYTES = 1 << 28
_LENGTH = struct.Struct(">I")
_BIG_INT = 1  # msgpack extension: an integer beyond 64 bits, as signed big-endian bytes

T = TypeVar("T")
Read = Callable[[Any], Any]
"""Converts a decoded msgpack value to its type; raises `_Mismatch`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Decoder:
    """Decoder of one type.

    Attributes:
        read: Converts a decoded msgpack value.
        kind: Type of the msgpack value, if it is always the same.
        deep: Whether there is more to check than `kind`.
    """

    read: Read
    kind: type | None = None
    deep: bool = True


class _Mismatch(Exception):
    """A decoded value is not of its type; the message names the field."""


_MALFORMED = (
    *(_Mismatch, AgentrtError, msgpack.UnpackException, ValueError),
    *(TypeError, ArithmeticError, RecursionError),  # keys, numbers and levels that Python refuses
)
"""Errors of a payload that is not a value."""


class Wire(Generic[T]):
    """The frames of one direction of a connection.

    Example:
        >>> from agentrt.protocol.backend import HoleFill
        >>> wire: Wire[HoleFill] = Wire(HoleFill)
        >>> payload = FrameReader().feed_data(wire.frame(HoleFill((1, 2), complete=True)))[0]
        >>> wire.value(payload)
        HoleFill(token_ids=(1, 2), complete=True, constraint=None, segments=(), traceparent='')
    """

    def __init__(self, *types_: type[T]) -> None:
        self._types = types_
        self._read = _union_of(types_, {}).read

    def frame(self, value: T) -> bytes:
        """`value` with its length before it.

        Raises:
            InternalError: The value does not belong on this wire.
        """
        if type(value) not in self._types:
            raise InternalError(f"a {type(value).__name__} does not belong on this wire")
        payload: bytes = _PACKING.packer.pack(value)
        if len(payload) > MAX_FRAME_BYTES:
            raise InternalError(f"a frame of {len(payload)} bytes is over {MAX_FRAME_BYTES}")
        return _LENGTH.pack(len(payload)) + payload

    def value(self, payload: bytes) -> T:
        """The value in a frame's payload.

        Raises:
            InternalError: The payload is not one of this wire's values.
        """
        try:
            plain = msgpack.unpackb(
                payload,
                use_list=False,
                strict_map_key=False,
                ext_hook=_unpack_ext,
                unicode_errors="surrogatepass",
            )
            value: T = self._read(plain)
        except _MALFORMED as error:
            raise InternalError(f"malformed frame: {error or type(error).__name__}") from error
        return value


class FrameReader:
    """Cuts a stream of bytes into the payloads of its frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed_data(self, data: bytes) -> list[bytes]:
        """Payloads completed by `data`.

        Raises:
            InternalError: A frame's length is over the limit.
        """
        self._rest += data
        return list(self._cut())

    def _cut(self) -> Iterator[bytes]:
        rest, at = self._rest, 0
        while len(rest) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, at)
            if length > MAX_FRAME_BYTES:
                raise InternalError(f"malformed frame: a length of {length} bytes")
            if len(rest) - at - _LENGTH.size < length:
                break
            start = at + _LENGTH.size
            at = start + length
            yield bytes(rest[start:at])
        del rest[:at]


def _plain(value: Any) -> Any:
    """A value that msgpack does not know, in terms of those that it does."""
    fields_of = _FIELDS_OF.get(type(value))
    if fields_of is not None:
        return fields_of(value)
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, signed=True))
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise InternalError(f"{type(value).__name__} {value!r} cannot cross a process")


_FIELDS_OF: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""The row of each class that travels: its name and its fields."""


class _Packing(threading.local):
    """The thread's packer: making one costs as much as encoding a step with it."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(default=_plain, unicode_errors="surrogatepass")


_PACKING = _Packing()


def _unpack_ext(code: int, data: bytes) -> int:
    if code != _BIG_INT:
        raise _Mismatch(f"extension {code} is unknown")
    return int.from_bytes(data, signed=True)


def _decoder_of(hint: Any, made: dict[type, _Decoder]) -> _Decoder:
    """Codec of the type `hint`."""
    if isinstance(hint, NewType):
        return _decoder_of(hint.__supertype__, made)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return made[hint] if hint in made else _dataclass_decoder(hint, made)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal_decoder(args)
    if origin in (Union, types.UnionType):
        return _union_of(args, made)
    if origin is tuple:
        return _tuple_decoder(args, made)
    if origin is frozenset:
        read = _sequence_decoder(_decoder_of(args[0], made)).read
        return _Decoder(lambda plain: frozenset(read(plain)))
    if hint is Any or origin is dict:
        return _Decoder(_json_value, dict if origin is dict else None)
    raise TypeError(f"no frame for the type {hint!r}")


def _scalar_decoder(kind: type) -> _Decoder:
    def read(plain: Any) -> Any:
        if type(plain) is not kind:
            raise _Mismatch(f"{kind.__name__} expected, got {type(plain).__name__}")
        return plain

    return _Decoder(read, kind, deep=False)


def _read_float(plain: Any) -> float:
    if type(plain) is not float and type(plain) is not int:
        raise _Mismatch(f"float expected, got {type(plain).__name__}")
    return float(plain)


_SCALARS: dict[Any, _Decoder] = {
    int: _scalar_decoder(int),
    str: _scalar_decoder(str),
    bool: _scalar_decoder(bool),
    bytes: _scalar_decoder(bytes),
    type(None): _scalar_decoder(type(None)),
    float: _Decoder(_read_float, float, deep=False),
    Path: _Decoder(lambda plain: Path(_scalar_decoder(str).read(plain))),
}


def _literal_decoder(values: tuple[Any, ...]) -> _Decoder:
    allowed = frozenset(values)

    def read(plain: Any) -> Any:
        if type(plain) not in (str, int, bool) or plain not in allowed:
            raise _Mismatch(f"one of {values} expected, got {plain!r}")
        return plain

    return _Decoder(read)


def _json_value(plain: Any) -> Any:
    """User data (a JSON Schema) with its arrays as lists."""
    if type(plain) is tuple:
        return [_json_value(part) for part in plain]
    if type(plain) is dict:
        return {key: _json_value(part) for key, part in plain.items()}
    return plain


def _tuple_decoder(args: tuple[Any, ...], made: dict[type, _Decoder]) -> _Decoder:
    if len(args) == 2 and args[1] is Ellipsis:
        return _sequence_decoder(_decoder_of(args[0], made))
    return _fields_decoder(
        tuple, tuple(_decoder_of(arg, made) for arg in args), tuple(map(str, args))
    )


def _sequence_decoder(item: _Decoder) -> _Decoder:
    read, kinds, shallow = item.read, {item.kind}, not item.deep

    def read_all(plain: Any) -> Any:
        if type(plain) is not tuple:
            raise _Mismatch(f"an array expected, got {type(plain).__name__}")
        if shallow and {*map(type, plain)} <= kinds:
            return plain
        return tuple([read(part) for part in plain])

    return _Decoder(read_all, tuple)


def _dataclass_decoder(cls: type, made: dict[type, _Decoder]) -> _Decoder:
    hints, title = hints_of(cls), cls.__name__
    names = tuple(field.name for field in dataclasses.fields(cls))
    _FIELDS_OF[cls] = attrgetter("__class__.__name__", *names) if names else lambda _: (title,)

    def build(row: list[Any]) -> Any:
        del row[0]
        return cls(*row)

    name = _Decoder(_literal_decoder((title,)).read, str, deep=False)
    decoders = (name, *(_decoder_of(hints[name], made) for name in names))
    made[cls] = decoder = _fields_decoder(build, decoders, (title, *names), title)
    return decoder


def _fields_decoder(
    build: Read, decoders: tuple[_Decoder, ...], names: tuple[str, ...], title: str = ""
) -> _Decoder:
    """A fixed number of fields; those without a conversion cost one C call together."""
    count = len(decoders)
    reads = [decoder.read for decoder in decoders]
    kinds = tuple(decoder.kind for decoder in decoders)
    deep = [(at, decoder.read) for at, decoder in enumerate(decoders) if decoder.deep]

    def read(plain: Any) -> Any:
        if type(plain) is not tuple or tuple(map(type, plain)) != kinds:
            return read_each(plain)
        if title and plain[0] != title:
            raise _Mismatch(f"{title} expected, got {plain[0]}")
        row = list(plain)
        try:
            for at, part in deep:
                row[at] = part(row[at])
        except _Mismatch:
            return read_each(plain)
        return build(row)

    def read_each(plain: Any) -> Any:
        """Read field by field if a field has several types, or to name the wrong one."""
        if type(plain) is not tuple or len(plain) != count:
            raise _Mismatch(f"{title or 'a row'} of {count} fields expected, got {plain!r:.60}")
        row: list[Any] = []
        for name, part, item in zip(names, reads, plain, strict=True):
            try:
                row.append(part(item))
            except _Mismatch as error:
                raise _Mismatch(f"{title}.{name}: {error}" if title else str(error)) from None
        return build(row)

    return _Decoder(read, tuple)


def _union_of(members: tuple[Any, ...], made: dict[type, _Decoder]) -> _Decoder:
    """One of several types: classes by their name, plain values by trial in order."""
    decoders = [(member, _decoder_of(member, made)) for member in members]
    classes = {
        member.__name__: decoder.read
        for member, decoder in decoders
        if isinstance(member, type) and dataclasses.is_dataclass(member)
    }
    plains = [one.read for member, one in decoders if not dataclasses.is_dataclass(member)]

    def read(plain: Any) -> Any:
        if type(plain) is tuple and plain and type(plain[0]) is str and plain[0] in classes:
            return classes[plain[0]](plain)
        for part in plains:
            try:
                return part(plain)
            except _Mismatch:
                continue
        raise _Mismatch(f"one of {(*classes,) or 'the plain types'} expected, got {plain!r:.60}")

    return _Decoder(read)
