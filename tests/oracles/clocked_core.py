"""An engine on a clock that the test moves."""

from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.engine.core import EngineCore


class ClockedCore(EngineCore):
    """An engine that shows its clock."""

    def __init__(self, config: EngineConfig, clock: Any, executor: Any = None) -> None:
        self.clock = clock
        super().__init__(config, clock, executor)
