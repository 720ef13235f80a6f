"""The table `[engines.embedded]` of `agentrt.toml`: the engine of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt.base.config import LoraAdapter
from agentrt.base.engines.setting_errors import type_name
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import FORMATS
from agentrt.base.prices import Prices

_EXPERTS: dict[str, type] = {"expert_routing": str, "expert_load": bool}
"""Settings of experts that it takes from the file."""
ADAPTERS = "adapters"
_TAKEN = (*FORMATS, *_EXPERTS, ADAPTERS)


def embedded_of_table(where: str, folder: Path, given: Any) -> tuple[Prices | None, dict[str, Any]]:
    """Prices of the embedded engine, and its settings by fields of `EngineConfig`.

    Args:
        where: Place of the table, for errors.
        folder: Folder of the file, to which directories are relative.
        given: The table.

    Raises:
        UsageError: The value is no such table, or a setting is unknown or malformed.
    """
    if not isinstance(given, dict) or not given or set(given) - {"prices", *_TAKEN}:
        raise UsageError(
            f"{where} is the engine of this process, and takes "
            f"{', '.join(_TAKEN)} and prices alone",
            hint='Give weights = "int8", or begin prices by [engines.embedded.prices]',
        )
    formats: dict[str, Any] = {name: given[name] for name in FORMATS if name in given}
    for name, value in formats.items():
        if value not in FORMATS[name]:
            raise UsageError(
                f"{where}.{name} = {value!r} is no format",
                hint=f"Give {', '.join(FORMATS[name])}",
            )
    if ADAPTERS in given:
        formats[ADAPTERS] = adapters_of_table(f"{where}.{ADAPTERS}", folder, given[ADAPTERS])
    formats |= _experts(where, given)
    if "prices" not in given:
        return None, formats
    from agentrt.base.engines.price_table import prices_of_table

    return prices_of_table(f"{where}.prices", given["prices"]), formats


def adapters_of_table(where: str, folder: Path, given: Any) -> tuple[LoraAdapter, ...]:
    """LoRA adapters by name, as a table of directories.

    Args:
        where: Place of the table, for errors.
        folder: Folder of the file, to which the directories are relative.
        given: The table.

    Raises:
        UsageError: The value is no such table.
    """
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise UsageError(
            f"{where} is no table of directories",
            hint='Give adapters = { judge = "DIR" }',
        )
    return tuple(
        LoraAdapter(name, folder / Path(place).expanduser()) for name, place in given.items()
    )


def _experts(where: str, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of experts."""
    found = {name: given[name] for name in _EXPERTS if name in given}
    for name, value in found.items():
        if not isinstance(value, _EXPERTS[name]):
            raise UsageError(
                f"{where}.{name} is {type_name(value)}",
                hint='Write expert_routing = "threshold=0.1", or expert_load = true',
            )
    if "expert_routing" in found:
        from agentrt.base.expert_routing import expert_routing

        expert_routing(found["expert_routing"])
    return found
