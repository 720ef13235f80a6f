"""msgpack frames: how the contracts cross a process.

A `Wire` is made from the dataclasses that may travel in one direction and reads their type hints
once. A value becomes a msgpack array of its fields in order; a member of a union carries its class
name first; a frame has four bytes of length before it. Input is checked against the type hints, so
that a malformed frame is an error with its location, never a wrong value.
"""

from __future__ import annotations

import dataclasses
import json
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
Plain = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _TypeCodec:
    """Encoder and decoder of one type.

    Attributes:
        write: Converts the value to what msgpack takes; None if that is the value itself.
        read: Converts back; raises `_Mismatch`.
        kind: Type of the decoded msgpack value, if it is always the same.
        deep: Whether there is more to check than `kind`.
    """

    write: Plain | None
    read: Plain
    kind: type | None = None
    deep: bool = True


class _Mismatch(Exception):
    """A decoded value is not of its type; the message names the field."""


class Wire(Generic[T]):
    """The frames of one direction of a connection.

    Example:
        >>> from agentrt.protocol.backend import HoleFill
        >>> wire: Wire[HoleFill] = Wire(HoleFill)
        >>> payload = FrameReader().feed_data(wire.frame(HoleFill((1, 2), complete=True)))[0]
        >>> wire.value(payload)
        HoleFill(token_ids=(1, 2), complete=True)
    """

    def __init__(self, *types_: type[T]) -> None:
        self._union = _union_of(types_, {})

    def frame(self, value: T) -> bytes:
        """`value` with its length before it."""
        write = self._union.write
        assert write is not None
        payload: bytes = _PACKING.packer.pack(write(value))
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
            value: T = self._union.read(plain)
        except (_Mismatch, ValueError, msgpack.UnpackException, AgentrtError) as error:
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


def _pack_big_int(value: Any) -> msgpack.ExtType:
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, signed=True))
    raise InternalError(f"{type(value).__name__} {value!r} cannot cross a process")


class _Packing(threading.local):
    """The thread's packer: making one costs as much as encoding a step with it."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(default=_pack_big_int, unicode_errors="surrogatepass")


_PACKING = _Packing()


def _unpack_ext(code: int, data: bytes) -> int:
    if code != _BIG_INT:
        raise _Mismatch(f"extension {code} is unknown")
    return int.from_bytes(data, signed=True)


def _codec_of(hint: Any, made: dict[type, _TypeCodec]) -> _TypeCodec:
    """Codec of the type `hint`."""
    if isinstance(hint, NewType):
        return _codec_of(hint.__supertype__, made)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return made[hint] if hint in made else _dataclass_codec(hint, made)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal_codec(args)
    if origin in (Union, types.UnionType):
        return _union_of(args, made)
    if origin is tuple:
        return _tuple_codec(args, made)
    if origin is frozenset:
        return _frozenset_codec(_codec_of(args[0], made))
    if hint is Any or origin is dict:
        return _json_codec(dict if origin is dict else object)
    raise TypeError(f"no frame for the type {hint!r}")


def _scalar_codec(kind: type) -> _TypeCodec:
    def read(plain: Any) -> Any:
        if type(plain) is not kind:
            raise _Mismatch(f"{kind.__name__} expected, got {type(plain).__name__}")
        return plain

    return _TypeCodec(None, read, kind, deep=False)


def _read_float(plain: Any) -> float:
    if type(plain) is not float and type(plain) is not int:
        raise _Mismatch(f"float expected, got {type(plain).__name__}")
    return float(plain)


_SCALARS: dict[Any, _TypeCodec] = {
    int: _scalar_codec(int),
    str: _scalar_codec(str),
    bool: _scalar_codec(bool),
    bytes: _scalar_codec(bytes),
    type(None): _scalar_codec(type(None)),
    float: _TypeCodec(None, _read_float, float, deep=False),
    Path: _TypeCodec(str, lambda plain: Path(_scalar_codec(str).read(plain))),
}


def _literal_codec(values: tuple[Any, ...]) -> _TypeCodec:
    allowed = frozenset(values)

    def read(plain: Any) -> Any:
        if type(plain) not in (str, int, bool) or plain not in allowed:
            raise _Mismatch(f"one of {values} expected, got {plain!r}")
        return plain

    return _TypeCodec(None, read)


def _json_codec(kind: type) -> _TypeCodec:
    """User data (a JSON Schema). JSON keeps the order of keys and integers of any size."""

    def read(plain: Any) -> Any:
        value = json.loads(_SCALARS[str].read(plain))
        if not isinstance(value, kind):
            raise _Mismatch(f"an object expected, got {type(value).__name__}")
        return value

    return _TypeCodec(lambda value: json.dumps(value, separators=(",", ":")), read)


def _tuple_codec(args: tuple[Any, ...], made: dict[type, _TypeCodec]) -> _TypeCodec:
    if len(args) == 2 and args[1] is Ellipsis:
        return _sequence_codec(_codec_of(args[0], made))
    return _fields_codec(tuple, tuple(_codec_of(arg, made) for arg in args), tuple(map(str, args)))


def _sequence_codec(item: _TypeCodec) -> _TypeCodec:
    write, read = item.write, item.read
    kinds, shallow = {item.kind}, not item.deep

    def read_all(plain: Any) -> Any:
        if type(plain) is not tuple:
            raise _Mismatch(f"an array expected, got {type(plain).__name__}")
        if shallow and {*map(type, plain)} <= kinds:
            return plain
        return tuple([read(part) for part in plain])

    if write is None:
        return _TypeCodec(None, read_all, tuple)
    return _TypeCodec(lambda value: [write(part) for part in value], read_all, tuple)


def _frozenset_codec(item: _TypeCodec) -> _TypeCodec:
    many = _sequence_codec(item)
    return _TypeCodec(lambda value: sorted(value), lambda plain: frozenset(many.read(plain)))


def _dataclass_codec(cls: type, made: dict[type, _TypeCodec]) -> _TypeCodec:
    hints = hints_of(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))
    codecs = tuple(_codec_of(hints[name], made) for name in names)
    made[cls] = codec = _fields_codec(lambda row: cls(*row), codecs, names, title=cls.__name__)
    return codec


def _fields_codec(
    build: Callable[[Any], Any],
    codecs: tuple[_TypeCodec, ...],
    names: tuple[str, ...],
    *,
    title: str = "",
) -> _TypeCodec:
    """A fixed number of fields; fields without a conversion cost one C call together."""
    count = len(codecs)
    fields_of = _fields_of(names) if title else tuple
    writes = [(at, codec.write) for at, codec in enumerate(codecs) if codec.write is not None]
    reads = [codec.read for codec in codecs]

    def write(value: Any) -> Any:
        if not writes:
            return fields_of(value)
        row = list(fields_of(value))
        for at, part in writes:
            row[at] = part(row[at])
        return row

    kinds = tuple(codec.kind for codec in codecs)
    deep = [(at, codec.read) for at, codec in enumerate(codecs) if codec.deep]

    def read(plain: Any) -> Any:
        if type(plain) is not tuple or tuple(map(type, plain)) != kinds:
            return read_each(plain)
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
        try:
            return build([part(item) for part, item in zip(reads, plain, strict=True)])
        except _Mismatch as error:
            raise _Mismatch(f"{_wrong_field(title, names, reads, plain)}: {error}") from None

    return _TypeCodec(write if title or writes else None, read, tuple)


def _fields_of(names: tuple[str, ...]) -> Plain:
    if not names:
        return lambda value: ()
    get = attrgetter(*names)
    return (lambda value: (get(value),)) if len(names) == 1 else get


def _wrong_field(
    title: str, names: tuple[str, ...], reads: list[Plain], plain: tuple[Any, ...]
) -> str:
    for name, read, item in zip(names, reads, plain, strict=True):
        try:
            read(item)
        except _Mismatch:
            return f"{title}.{name}"
    return title


def _union_of(members: tuple[Any, ...], made: dict[type, _TypeCodec]) -> _TypeCodec:
    """One of several types: classes by their name, plain values by trial in order."""
    classes: list[Any] = [member for member in members if dataclasses.is_dataclass(member)]
    plains = [_codec_of(member, made) for member in members if member not in classes]
    codecs: dict[str, _TypeCodec] = {cls.__name__: _codec_of(cls, made) for cls in classes}
    writes = {name: codec.write for name, codec in codecs.items()}
    plain_writes = [codec.write for codec in plains if codec.write is not None]
    if len(plain_writes) > 1:
        raise TypeError(f"no frame for the union {members!r}: its members look alike")

    def write(value: Any) -> Any:
        part = writes.get(type(value).__name__)
        if part is not None:
            return (type(value).__name__, part(value))
        if not plains or dataclasses.is_dataclass(value):
            raise InternalError(f"a {type(value).__name__} does not belong on this wire")
        return plain_writes[0](value) if plain_writes and value is not None else value

    def read(plain: Any) -> Any:
        if type(plain) is tuple and len(plain) == 2 and classes:
            codec = codecs.get(plain[0]) if type(plain[0]) is str else None
            if codec is not None:
                return codec.read(plain[1])
        return _read_first_match(plains, plain, tuple(codecs))

    simple = not classes and all(codec.write is None for codec in plains)
    return _TypeCodec(None if simple else write, read)


def _read_first_match(plains: list[_TypeCodec], plain: Any, names: tuple[str, ...]) -> Any:
    for codec in plains:
        try:
            return codec.read(plain)
        except _Mismatch:
            continue
    raise _Mismatch(f"one of {names or 'the plain types'} expected, got {plain!r:.60}")
