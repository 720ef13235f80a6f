"""Location of the file of learned quantities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt.base.user_folders import state_folder

VARIABLE = "AGENTRT_ESTIMATES"
OFF = ("off", "0", "none")


def estimates_path(environment: Mapping[str, str]) -> Path | None:
    """The file of learned quantities, or None if it is switched off.

    `AGENTRT_ESTIMATES` names it or switches it `off`; the default is a file in the user's state
    folder.
    """
    named = environment.get(VARIABLE, "").strip()
    if named.lower() in OFF:
        return None
    return Path(named).expanduser() if named else state_folder(environment) / "estimates.sqlite"
