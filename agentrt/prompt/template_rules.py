"""Costs of the filters and methods of chat templates; those without a rule here do not exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import SecurityError

from agentrt.prompt.template_meter import CHARACTERS_PER_ITEM, TemplateMeter, parts_of


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_WIDTH = 100_000
"""Largest width, indentation or number of fields."""

TEXT_FILTERS = _names(
    "capitalize e escape forceescape lower safe string title trim truncate upper urlencode "
    "wordcount"
)
ITEM_FILTERS = _names(
    "abs attr count default d first float int items last length list map reject rejectattr reverse "
    "select selectattr"
)
COMPARING_FILTERS = _names("dictsort groupby max min sort sum unique")
WIDE_FILTERS = _names("batch center indent join format replace round slice tojson")
CONSUMING_FILTERS = COMPARING_FILTERS | _names(
    "batch join list map reject rejectattr reverse select selectattr slice"
)
FILTERS = TEXT_FILTERS | ITEM_FILTERS | COMPARING_FILTERS | WIDE_FILTERS

TEXT_METHODS = _names(
    "capitalize casefold center count endswith find format index isalnum isalpha isascii isdecimal "
    "isdigit islower isnumeric isspace istitle isupper join ljust lower lstrip partition "
    "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title upper zfill"
)
LINEAR_METHODS = TEXT_METHODS - _names("center format join ljust replace rjust split zfill")
"""Methods with results no longer than their text."""

METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (str, TEXT_METHODS),
    (dict, frozenset(("copy", "get", "items", "keys", "values"))),
    (list, frozenset(("copy", "count", "index"))),
    (tuple, frozenset(("count", "index"))),
    (int, frozenset(("bit_length",))),
    (float, frozenset(("is_integer",))),
)
"""Methods of plain values; other values have only what the template itself defines."""


def count_filter(meter: TemplateMeter, name: str, arguments: Sequence[Any]) -> None:
    """Count one use of a filter, before it runs.

    Raises:
        SecurityError: The arguments are not allowed.
        RequestRejected: Nothing is left.
    """
    value: Any = arguments[0] if arguments else None
    items = len(value) if hasattr(value, "__len__") else 1
    if name in ITEM_FILTERS:
        path = sum(len(one) for one in arguments[1:] if isinstance(one, str))
        if name in _TAKES_ONE:
            return meter.count_steps(1)
        meter.count_steps((1 + items) * (1 + path // 32))
        return meter.count_items(items * 4 if isinstance(value, str) else items)
    size = meter.weigh(value)
    if name in COMPARING_FILTERS:
        if name == "sum" and any(parts_of(one) is not None for one in arguments[1:]):
            raise SecurityError("chat templates may add up numbers only")
        meter.count_steps(8 * (1 + items + size // 64))
        return meter.count_items(items)
    if name in WIDE_FILTERS:
        return _count_wide(meter, name, value, size, arguments[1:])
    return meter.count_text(size)


_TAKES_ONE = _names("abs attr count default d first float int length last")


def count_method(meter: TemplateMeter, owner: Any, name: str, arguments: Sequence[Any]) -> None:
    """Count one call of a method of a plain value, before it runs.

    Raises:
        SecurityError: The method or its arguments are not allowed.
        RequestRejected: Nothing is left.
    """
    allowed = next((names for kind, names in METHODS if isinstance(owner, kind)), frozenset())
    if name not in allowed:
        raise SecurityError(f"chat templates may not use {type(owner).__name__}.{name}")
    if isinstance(owner, dict):
        meter.count_steps(1 if name == "get" else 1 + len(owner) // 8)
        return _weigh_all(meter, arguments)
    if not isinstance(owner, str):
        meter.count_steps(1 if isinstance(owner, int | float) else meter.weigh(owner))
        return _weigh_all(meter, arguments)
    meter.count_text(len(owner))
    if name in ("split", "rsplit", "splitlines"):
        apart = arguments[0] if arguments and isinstance(arguments[0], str) else None
        pieces = owner.count(apart) if apart else len(owner) // 2
        return meter.count_text(pieces * CHARACTERS_PER_ITEM * 4)
    if name == "join":
        return _count_wide(meter, name, *_joined(meter, owner, arguments))
    if name not in LINEAR_METHODS:
        _count_wide(meter, name, owner, len(owner), arguments)
    return None


def _joined(
    meter: TemplateMeter, owner: str, arguments: Sequence[Any]
) -> tuple[Any, int, tuple[Any, ...]]:
    value = arguments[0] if arguments else ""
    return value, meter.weigh(value), (owner,)


def _weigh_all(meter: TemplateMeter, arguments: Sequence[Any]) -> None:
    for argument in arguments:
        if parts_of(argument) is not None:
            meter.weigh(argument)


def _count_wide(
    meter: TemplateMeter, name: str, value: Any, size: int, arguments: Sequence[Any]
) -> None:
    """Count what may be larger than the value, by the numbers and texts among its arguments."""
    numbers = [abs(one) for one in arguments if isinstance(one, int)]
    given = sum(meter.weigh(one) for one in arguments if not isinstance(one, int))
    width = max(numbers, default=0)
    if width > MAX_WIDTH:
        raise SecurityError(f"a chat template asks for a width of {width}")
    match name:
        case "replace" if len(arguments) >= 2:
            old, new = (str(one) for one in arguments[:2])
            found = str(value).count(old) if parts_of(value) is None else size
            meter.count_text(size + found * len(new))
        case "join":
            items = len(value) if hasattr(value, "__len__") else size
            meter.count_text(size + items * given)
        case "format":
            _count_format(meter, str(value), width + given)
        case "tojson":
            indented = size // 3 * width * _depth(value) if width else 0
            meter.count_text(size + given + indented)
        case "indent":
            meter.count_text(size + (1 + str(value).count("\n")) * (width + given))
        case "round":
            if width > 1_000:
                raise SecurityError(f"a chat template rounds to {width} digits")
        case _:
            meter.count_text(width + given)


def _count_format(meter: TemplateMeter, form: str, largest: int) -> None:
    widths = [int(digits[:9]) for digits in re.findall(r"\d+", form)]
    if max(widths, default=0) > MAX_WIDTH or "*" in form or re.search(r"\{[^}]*\{", form):
        raise SecurityError("a chat template formats a text wider than allowed")
    fields = form.count("{") + form.count("%")
    meter.count_text(len(form) + sum(widths) + fields * largest)


def _depth(value: Any) -> int:
    """Levels of containers in a value that has been weighed; as JSON, 1,000 at most."""
    level, depth = [value], 0
    while level and depth < 1_000:
        depth += 1
        level = [part for one in level for part in parts_of(one) or ()]
    return depth
