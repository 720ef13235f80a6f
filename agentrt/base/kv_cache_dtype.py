"""Type in which an engine keeps keys and values, checked before the engine starts."""

from __future__ import annotations

from dataclasses import replace
from typing import cast, get_args

from agentrt.base.config import EngineConfig, KvCacheDtype
from agentrt.base.errors import UsageError

_KNOWN: tuple[str, ...] = get_args(KvCacheDtype)


def check_kv_cache_dtype(config: EngineConfig) -> None:
    """Check the type of cached keys and values.

    Raises:
        UsageError: There is none of that name.
    """
    if config.kv_cache_dtype not in _KNOWN:
        raise UsageError(
            f"EngineConfig(kv_cache_dtype={config.kv_cache_dtype!r}) is unknown",
            hint=f"Give {' or '.join(_KNOWN)}",
        )


def with_kv_cache_dtype(config: EngineConfig, kv_cache_dtype: str) -> EngineConfig:
    """Settings of an engine that keeps KV as `--kv-cache-dtype` says; "" changes nothing.

    Raises:
        UsageError: There is no type of that name.

    Example:
        >>> from pathlib import Path
        >>> with_kv_cache_dtype(EngineConfig(Path("model")), "int8").kv_cache_dtype
        'int8'
    """
    if not kv_cache_dtype:
        return config
    if kv_cache_dtype not in _KNOWN:
        raise UsageError(
            f"--kv-cache-dtype {kv_cache_dtype!r} is unknown", hint=f"give {' or '.join(_KNOWN)}"
        )
    return replace(config, kv_cache_dtype=cast(KvCacheDtype, kv_cache_dtype))
