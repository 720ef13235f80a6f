"""The engine of each role, from what a caller gives and `agentrt.toml` says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection, EngineSettings
from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED, EngineFile
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.prices import Prices

EngineChoice = EngineConfig | RemoteEngineConfig | str | None
"""Settings of an engine, the URL of a remote one, a name of `agentrt.toml`, or None."""


def engines_of_roles(
    engine: EngineChoice,
    models: Mapping[str, EngineChoice] | None,
    file: EngineFile,
    default_model: Path,
    *,
    remote_model: str | None = None,
    api_key: str | None = None,
) -> dict[str, EngineSettings]:
    """Settings of the engine of each role.

    Args:
        engine: Engine of the `default` role; None takes that of the file, or else the embedded one.
        models: Engines of other roles, where None is the embedded engine; None takes the file's.
        file: Engines and roles by name.
        default_model: Directory of the embedded engine's model.
        remote_model: Name of the model at `engine`, or None.
        api_key: `env:NAME`, the variable that holds the key of `engine`, or None. No other engine
            gets it.

    Raises:
        UsageError: A name is unknown, or a model or key is given for an engine that takes none.
    """
    if models is None:
        models = {role: name for role, name in file.roles.items() if role != DEFAULT_ROLE}
    found = {
        role: choice
        if isinstance(choice, EngineConfig | RemoteEngineConfig)
        else EngineSelection(choice or EMBEDDED).settings(file, default_model)
        for role, choice in models.items()
    }
    found[DEFAULT_ROLE] = _default(engine, file, default_model, remote_model, api_key)
    return found


def prices_of(engine: EngineSettings) -> list[Prices]:
    """Prices of an engine, of its members, and of those that take its requests over."""
    given = [engine.prices]
    if isinstance(engine, RemoteEngineConfig):
        given += [one.engine.prices for one in engine.members]
        others = [] if engine.fallbacks is None else engine.fallbacks.engines()
        for one, _ in others:
            given += [one.prices, *(member.engine.prices for member in one.members)]
    return [one for one in given if one is not None]


def _default(
    engine: EngineChoice,
    file: EngineFile,
    default_model: Path,
    remote_model: str | None,
    api_key: str | None,
) -> EngineSettings:
    if not isinstance(engine, EngineConfig | RemoteEngineConfig):
        named = EngineSelection(engine or "")
        settings = named.settings(file, default_model)
        if isinstance(settings, RemoteEngineConfig):
            return named.overridden(None, remote_model, api_key, None).settings(file, default_model)
        engine = settings
    if remote_model is not None or api_key is not None:
        raise UsageError(
            "remote_model and api_key are for an engine given by its address or name",
            hint="Give RemoteEngineConfig(address=..., model=..., key='env:NAME') instead",
        )
    return engine
