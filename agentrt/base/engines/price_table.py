"""Prices of an engine as a table of `agentrt.toml` has them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.prices import Prices

_AMOUNTS = ("input", "cached_input", "output", "device_second")
_KNOWN = (*_AMOUNTS, "currency")


def prices_of_table(where: str, given: Any) -> Prices:
    """The prices of a table.

    Args:
        where: File and table, for messages.
        given: The table.

    Raises:
        UsageError: The value is no table, an entry is unknown, or an amount is malformed.
    """
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table", hint="Give prices = { input = 1.25, output = 10 }")
    for name, value in given.items():
        if name not in _KNOWN:
            close = get_close_matches(name, _KNOWN, n=1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise UsageError(
                f"{where}: {name!r} is no price{meant}", hint=f"It takes {', '.join(_KNOWN)}"
            )
        if name == "currency" and not isinstance(value, str):
            raise UsageError(f"{where}: currency is no string", hint='Give currency = "USD"')
    try:
        return Prices.of(**given)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
