"""Where files that outlive a run stand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "AGENTRT_ESTIMATES"
OFF = ("off", "0", "none")


def estimates_path(environment: Mapping[str, str]) -> Path | None:
    """The file of learned quantities, or None where the user wants none.

    `AGENTRT_ESTIMATES` names it or switches it `off`; else it stands in the user's state directory
    (`XDG_STATE_HOME`, or `~/.local/state`).
    """
    said = environment.get(VARIABLE, "").strip()
    if said.lower() in OFF:
        return None
    if said:
        return Path(said).expanduser()
    state = environment.get("XDG_STATE_HOME", "").strip()
    folder = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local/state"
    return folder / "agentrt" / "estimates.sqlite"
