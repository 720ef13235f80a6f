"""Fields of an engine's config as JSON settings of an arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig

_PATHS = ("model_path", "draft_model", "replay")


def config_of(settings: dict[str, Any]) -> EngineConfig:
    """The config of these fields; folders are texts in JSON."""
    paths = {name: Path(settings[name]) for name in _PATHS if settings.get(name)}
    return EngineConfig(**{**settings, **paths})
