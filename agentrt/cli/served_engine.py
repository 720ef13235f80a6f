"""The engine that `agentrt serve` opens, by its flags and by `agentrt.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.engines.engine_file import engine_file
from agentrt.cli.embedded_engine import embedded_engine


def served_engine(
    model: str,
    environment: Mapping[str, str],
    *,
    device: str,
    dtype: str,
    threads: int,
    kv_tokens: int,
) -> EngineConfig:
    """Settings of the embedded engine, where a flag goes before the file.

    Args:
        model: Checkpoint; "" is that of the file, or the model that ships.
        environment: Environment variables; they may name the file.
        device: "cpu" or "cuda".
        dtype: Type of the weights; "" is that of the file.
        threads: Threads; 0 is the number in the file.
        kv_tokens: Tokens that the KV memory holds; 0 sizes it by what is free.

    Raises:
        UsageError: The file cannot be read, or a setting of it is malformed.
    """
    config = embedded_engine(engine_file(environment), device, model)
    given: dict[str, Any] = {"dtype": dtype, "threads": threads}
    config = replace(config, **{name: value for name, value in given.items() if value})
    return replace(config, kv_pages=-(-kv_tokens // config.page_tokens))


def served_name(config: EngineConfig) -> str:
    """Name of the model for clients: that of its directory, or "embedded"."""
    if config.model_path == embedded.path():
        return "embedded"
    return config.model_path.resolve().name
