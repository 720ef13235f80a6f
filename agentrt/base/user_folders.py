"""The user's folders for files that no command owns: XDG's base directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt.base.errors import UsageError


def state_folder(environment: Mapping[str, str]) -> Path:
    """Folder of what has to stay: `agentrt` in `XDG_STATE_HOME`, or in `~/.local/state`.

    Example:
        >>> state_folder({"XDG_STATE_HOME": "/state"})
        PosixPath('/state/agentrt')
    """
    return _base(environment, "XDG_STATE_HOME", ".local/state") / "agentrt"


def config_folder(environment: Mapping[str, str]) -> Path:
    """Folder of settings: `agentrt` in `XDG_CONFIG_HOME`, or in `~/.config`."""
    return _base(environment, "XDG_CONFIG_HOME", ".config") / "agentrt"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Folder of what can be made again: `agentrt` in `XDG_CACHE_HOME`, or in `~/.cache`."""
    return _base(environment, "XDG_CACHE_HOME", ".cache") / "agentrt"


def _base(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """The folder that a variable names; relative paths are ignored, as XDG says.

    Raises:
        UsageError: The user has no home directory, as in a container under a number without a name.
    """
    named = Path(environment.get(variable, "").strip())
    if named.is_absolute():
        return named
    try:
        return Path.home() / usual
    except RuntimeError:
        raise UsageError(
            f"there is no home directory, and {variable} names no folder",
            hint=f"Set HOME, or {variable}",
        ) from None
