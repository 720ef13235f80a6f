"""The folder for files that outlive a command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def state_folder(environment: Mapping[str, str]) -> Path:
    """The user's state folder: `agentrt` in `XDG_STATE_HOME`, or in `~/.local/state`."""
    state = environment.get("XDG_STATE_HOME", "").strip()
    folder = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local/state"
    return folder / "agentrt"
