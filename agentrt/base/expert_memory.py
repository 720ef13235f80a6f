"""Memory for experts as flags, files and `EngineConfig` give it."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.byte_size import byte_size
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError


def expert_memory(text: str, where: str = "EngineConfig(expert_memory={!r})") -> int:
    """Most bytes of experts in fast memory; 0 if all are in it.

    Args:
        text: The setting.
        where: Place of the setting, for errors.

    Raises:
        UsageError: The text is no size.

    Example:
        >>> expert_memory("2GiB"), expert_memory("")
        (2147483648, 0)
    """
    if not text:
        return 0
    try:
        return byte_size(text)
    except ValueError:
        raise UsageError(
            f"{where.format(text)} is no size of memory", hint="Give 2GiB, 800MB, or bytes"
        ) from None


def with_expert_memory(config: EngineConfig, text: str) -> EngineConfig:
    """Settings of an engine as `--expert-memory` says; "" changes nothing.

    Raises:
        UsageError: The text is no size.
    """
    if not text:
        return config
    expert_memory(text, "--expert-memory {!r}")
    return replace(config, expert_memory=text)
