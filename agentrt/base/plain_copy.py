"""Plain copies of values of user code, of bounded size, for records that are written later.

A value may change after it was seen, and another thread may not read it while it does. Texts and
numbers are shared, containers are copied, and everything else is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from itertools import islice
from typing import Any

MAX_PARTS = 2000
MAX_DEPTH = 20
LEFT_OUT = "[{count} more]"
_PLAIN = (str, int, float, bool, type(None))
_AS_TEXT = ("datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid")
_MISSING = object()


class PlainCopy:
    """Copies values as far as a limit on the number of their parts allows.

    Args:
        max_parts: Most parts of all values together.

    Attributes:
        characters: Characters of the texts in the copies.
        left_out: Parts that were left out.
    """

    __slots__ = ("_rest", "characters", "left_out")

    def __init__(self, max_parts: int = MAX_PARTS) -> None:
        self._rest = max_parts
        self.characters = 0
        self.left_out = 0

    def of(self, value: Any, depth: int = 0) -> Any:
        """The value as texts, numbers, lists and dicts; objects without such a form by class."""
        kind = type(value)
        if kind is str:
            self.characters += len(value)
            return value
        if kind in _PLAIN:
            return value
        try:
            if kind is dict and depth < MAX_DEPTH:  # the ways of most values
                return self._dict(value.items(), len(value), depth)
            if kind is list and depth < MAX_DEPTH:
                return self._list(value, depth)
            return self._parts_of(value, depth)
        except Exception:  # code of the value failed
            return _named(value)

    def _parts_of(self, value: Any, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return _named(value)
        if isinstance(value, Enum):
            return self.of(value.value, depth + 1)
        if isinstance(value, str):
            return self.of(str(value))
        if isinstance(value, Mapping):
            return self._dict(value.items(), len(value), depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} bytes>"
        if isinstance(value, Sequence | Set) and not isinstance(value, range):
            return self._list(value, depth)
        names = _fields_of(type(value))
        if names is not None:
            pairs = ((name, getattr(value, name, _MISSING)) for name in names)
            found = [pair for pair in pairs if pair[1] is not _MISSING]
            return self._dict(found, len(found), depth)
        if type(value).__module__.partition(".")[0] in _AS_TEXT:
            return self.of(str(value))
        return _named(value)

    def _dict(self, pairs: Any, count: int, depth: int) -> dict[str, Any]:
        taken = self._take(count)
        some = pairs if taken == count else islice(pairs, taken)
        copied = {str(key): self.of(one, depth + 1) for key, one in some}
        if taken < count:
            copied[LEFT_OUT.format(count=count - taken)] = None
        return copied

    def _list(self, value: Sequence[Any] | Set[Any], depth: int) -> list[Any]:
        count = len(value)
        taken = self._take(count)
        copied = [self.of(one, depth + 1) for one in islice(value, taken)]
        if taken < count:
            copied.append(LEFT_OUT.format(count=count - taken))
        return copied

    def _take(self, wanted: int) -> int:
        taken = min(wanted, self._rest)
        self._rest -= taken
        self.left_out += wanted - taken
        return taken


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass, a pydantic model or a named tuple; None for others."""
    for attribute in ("__pydantic_fields__", "__dataclass_fields__"):
        fields = getattr(kind, attribute, None)
        if isinstance(fields, dict):
            return tuple(fields)
    return None


def _named(value: Any) -> str:
    return f"<{type(value).__qualname__}>"
