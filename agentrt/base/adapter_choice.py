"""Adapters of the embedded engine by name, as flags, files and `EngineConfig` give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agentrt.base.config import EngineConfig, LoraAdapter
from agentrt.base.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def adapters_of(given: Iterable[str]) -> tuple[LoraAdapter, ...]:
    """Adapters as `--adapter NAME=DIR` gives them.

    Raises:
        UsageError: A text is no name and directory, or a name comes twice.

    Example:
        >>> adapters_of(["judge=adapters/judge"])
        (LoraAdapter(name='judge', path=PosixPath('adapters/judge')),)
    """
    found: list[LoraAdapter] = []
    for text in given:
        name, _, place = text.partition("=")
        if not name or not place:
            raise UsageError(
                f"--adapter {text!r} is no adapter", hint="give --adapter judge=DIR: NAME=DIR"
            )
        found.append(LoraAdapter(name, Path(place).expanduser()))
    _check_names(found)
    return tuple(found)


def with_adapters(config: EngineConfig, given: Sequence[str]) -> EngineConfig:
    """Settings of an engine as `--adapter` says; adapters of other names stay.

    Raises:
        UsageError: A text is no name and directory, or a name comes twice.
    """
    if not given:
        return config
    found = adapters_of(given)
    names = {one.name for one in found}
    kept = tuple(one for one in config.adapters if one.name not in names)
    return replace(config, adapters=(*kept, *found))


def check_adapters(config: EngineConfig) -> None:
    """Check the names of adapters, and that the device takes any.

    Raises:
        UsageError: A name is none or comes twice, or the device is not a CPU.
    """
    _check_names(config.adapters)
    if config.adapters and config.device != "cpu":
        raise UsageError(
            f"adapters are computed on a CPU alone, and the device is {config.device}",
            hint="Give device='cpu', or serve the adapters with vLLM or SGLang and name its URL",
        )


def adapter_number(config: EngineConfig, name: str) -> int:
    """Number of an adapter from 1 on; 0 for "", the model as it is.

    Raises:
        KeyError: The engine has no adapter of this name.
    """
    if not name:
        return 0
    return {one.name: at for at, one in enumerate(config.adapters, 1)}[name]


def _check_names(adapters: Iterable[LoraAdapter]) -> None:
    seen: set[str] = set()
    for one in adapters:
        if not _NAME.fullmatch(one.name):
            raise UsageError(
                f"{one.name!r} is no name of an adapter",
                hint="Give letters, digits, '.', '_' and '-'",
            )
        if one.name in seen:
            raise UsageError(
                f"two adapters are named {one.name!r}", hint="Give each a name of its own"
            )
        seen.add(one.name)
