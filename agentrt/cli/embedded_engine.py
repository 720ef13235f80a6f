"""The embedded engine as `agentrt.toml` describes it, for commands that open no other one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import EMBEDDED, EngineFile

if TYPE_CHECKING:
    from agentrt.base.config import Device


def embedded_engine(file: EngineFile, device: str, model: str = "") -> EngineConfig:
    """Settings of the embedded engine.

    Args:
        file: The file.
        device: "cpu" or "cuda".
        model: Checkpoint; "" is that of the file, or the model that ships.

    Raises:
        UsageError: The device is unknown.
    """
    selection = EngineSelection(EMBEDDED, model, device=cast("Device", device))
    found = selection.settings(file, embedded.path())
    assert isinstance(found, EngineConfig)
    return found
