"""Sizes of memory as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?)", re.ASCII)


def byte_size(text: str) -> int:
    """Bytes of a size: `2GiB`, `1.5 GB`, `800MiB`, `4096`.

    Raises:
        ValueError: The text is no size above 0.

    Example:
        >>> byte_size("2GiB"), byte_size("1.5 KB"), byte_size("4096")
        (2147483648, 1500, 4096)
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is no size")
    found = int(float(match[1]) * _UNITS[match[2]])
    if not found:
        raise ValueError(f"{text!r} is nothing")
    return found
