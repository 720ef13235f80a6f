"""Opening a compiled model: its manifest, checked, and the settings that it fixes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from agentrt.base.compiled_model import is_compiled
from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.engine.models.compiled.freshness import check_fresh
from agentrt.engine.models.compiled.manifest import CompiledModel, read_manifest


def open_compiled(path: Path) -> CompiledModel | None:
    """The compiled model in a directory; None if it is no such directory.

    Raises:
        ModelInvalid: The model is broken or stale.
    """
    if not is_compiled(path):
        return None
    model = read_manifest(path)
    check_fresh(model)
    return model


def with_compiled(config: EngineConfig) -> tuple[EngineConfig, CompiledModel | None]:
    """An engine's settings with those that its compiled model fixes, and that model.

    Raises:
        ModelInvalid: The compiled model is broken or stale.
        UsageError: A setting asks for another format than it was compiled for.
        EngineUnavailable: The device is no CPU, or the kernels are others.
    """
    model = None if config.random_weights else open_compiled(config.model_path)
    if model is None:
        return config, None
    if config.device != "cpu":
        raise EngineUnavailable(
            f"{model.path} is compiled for a CPU, and device={config.device}",
            hint=f"Use --device cpu, or its source, {model.source.path}",
        )
    if config.kernels not in ("auto", "cpu"):
        raise EngineUnavailable(
            f"{model.path} is compiled for the cpu kernels, and kernels={config.kernels}",
            hint=f"Use kernels=auto, or its source, {model.source.path}",
        )
    fixed: dict[str, Any] = {}
    neutral = {"dtype": "auto", "weights": "checkpoint", "weight_group": 0, "head_weights": "auto"}
    for name, unasked in neutral.items():
        asked, has = getattr(config, name), getattr(model.settings, name)
        if asked not in (unasked, has):
            raise UsageError(
                f"{model.path} was compiled with {name}={has}, and {name}={asked} is asked for",
                hint=f"Leave {name}, or compile {model.source.path} again with it",
            )
        fixed[name] = has
    return replace(config, **fixed), model
