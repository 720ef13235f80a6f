"""Facts that are the same in all parts of a measurement: its machine, its code, its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.errors import UsageError

_HINT = "Measure into another file, or repeat what FILE was measured with"


def check_equal(there: Any, here: Any, where: str) -> None:
    """Check that an earlier part was measured with the same facts as there are now.

    Raises:
        UsageError: There is a difference; the message names the first.
    """
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in dict.fromkeys([*there, *here]):
            check_equal(there.get(name), here.get(name), f"{where}: {name}")
        return
    if _plain(there) != _plain(here):
        raise UsageError(
            f"{where} differs from earlier plays: {_shown(there)} there, {_shown(here)} now",
            hint=_HINT,
        )


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
