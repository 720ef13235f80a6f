"""The table `[engines.embedded]` of `agentrt.toml`: the engine of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt.base.config import LoraAdapter
from agentrt.base.engines.setting_errors import type_name
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import FORMATS
from agentrt.base.prices import Prices

_EXPERTS: dict[str, type] = {"expert_routing": str, "expert_load": bool, "expert_memory": str}
"""Settings of experts that it takes from the file."""
ADAPTERS = "adapters"
_PLAIN = (
    *("dtype", "speculate_tokens", "max_running", "step_tokens", "prefill_chunk_tokens"),
    "threads",
)
"""Settings that it takes as `EngineConfig` does."""
_PLACES = {"model": "model_path", "draft_model": "draft_model"}
"""Models, relative to the file, by keys of the table."""
TAKEN = (*FORMATS, *_PLAIN, *_PLACES, *_EXPERTS, ADAPTERS)
"""Keys of the table beside its prices."""


def embedded_of_table(where: str, folder: Path, given: Any) -> tuple[Prices | None, dict[str, Any]]:
    """Prices of the embedded engine, and its settings by fields of `EngineConfig`.

    Args:
        where: Place of the table, for errors.
        folder: Folder of the file, to which directories are relative.
        given: The table.

    Raises:
        UsageError: The value is no such table, or a setting is unknown or malformed.
    """
    if not isinstance(given, dict) or not given or set(given) - {"prices", *TAKEN}:
        raise UsageError(
            f"{where} is the engine of this process, and takes {', '.join(TAKEN)} and prices alone",
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
    formats |= _experts(where, given) | _plain(where, given) | _places(where, folder, given)
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


def _plain(where: str, given: dict[str, Any]) -> dict[str, Any]:
    """Settings that are written as they are in Python."""
    found = {name: given[name] for name in _PLAIN if name in given}
    if found:
        from agentrt.base.engine_setting_values import allowed, fits, setting_types

        for name, value in found.items():
            if not fits(value, setting_types()[name]):
                hint = allowed(setting_types()[name])
                raise UsageError(
                    f"{where}.{name} = {value!r} is no value of it", hint=hint.capitalize()
                )
    return found


def _places(where: str, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Paths of models."""
    found: dict[str, Any] = {}
    for name, setting in _PLACES.items():
        if name not in given:
            continue
        if not isinstance(given[name], str) or not given[name]:
            raise UsageError(
                f"{where}.{name} is {type_name(given[name])}",
                hint=f'Give a directory or a GGUF file: {name} = "models/qwen"',
            )
        found[setting] = folder / Path(given[name]).expanduser()
    if "draft_model" in found and given.get("speculate_tokens", "off") in ("off", 0):
        raise UsageError(
            f"{where}.draft_model drafts nothing without speculate_tokens",
            hint='Add speculate_tokens = "auto", or leave the draft model',
        )
    return found


def _experts(where: str, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of experts."""
    found = {name: given[name] for name in _EXPERTS if name in given}
    for name, value in found.items():
        if not isinstance(value, _EXPERTS[name]):
            raise UsageError(
                f"{where}.{name} is {type_name(value)}",
                hint='Write expert_routing = "threshold=0.1", expert_load = true, or '
                'expert_memory = "2GiB"',
            )
    if "expert_routing" in found:
        from agentrt.base.expert_routing import expert_routing

        expert_routing(found["expert_routing"])
    if "expert_memory" in found:
        from agentrt.base.expert_memory import expert_memory

        expert_memory(found["expert_memory"], f"{where}.expert_memory = {{!r}}")
    return found
