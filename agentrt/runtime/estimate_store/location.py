"""Location of the file of learned quantities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "AGENTRT_ESTIMATES"
OFF = ("off", "0", "none")


def estimates_path(environment: Mapping[str, str]) -> Path | None:
    """The file of learned quantities, or None if it is switched off.

    `AGENTRT_ESTIMATES` names it or switches it `off`; the default is a file in the user's state
    directory (`XDG_STATE_HOME`, or `~/.local/state`).
    """
    named = environment.get(VARIABLE, "").strip()
    if named.lower() in OFF:
        return None
    if named:
        return Path(named).expanduser()
    state = environment.get("XDG_STATE_HOME", "").strip()
    folder = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local/state"
    return folder / "agentrt" / "estimates.sqlite"
