"""The process of our runtime's arm over replicas of a stock server.

Run as `python -P -m agentrt.lab.arms.fleet_arm`; it answers `open` and `play`.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import Any

import anyio

from agentrt.base.clock import Clock
from agentrt.base.config import SchedulerConfig
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.replay_backend import ReplayBackend
from agentrt.lab.arms.runtime_arm import RuntimeArm
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend
from agentrt.remote import RemoteEngines

Json = dict[str, Any]


class FleetArm(RuntimeArm):
    """A runtime over one engine of several addresses, and the programs that it plays."""

    def _engine(
        self, settings: Json, scheduler: SchedulerConfig, clock: Clock
    ) -> tuple[Backend, Codec | None]:
        """The fleet; outputs end at their true lengths, which only its servers are told."""
        addresses = tuple(settings["url"].split(","))
        config = RemoteEngineConfig(
            kind=settings["kind"], addresses=addresses, model=settings["model"]
        )
        engines = RemoteEngines(clock, {}, {}, scheduler.policy)
        backend = ReplayBackend(engines.backend(config), self._plays, scheduler.policy, cuts=True)
        return backend, None


async def main() -> None:
    """Answer until standard input ends."""
    async with AsyncExitStack() as stack:
        await answer_lines(FleetArm(stack))


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        anyio.run(main)
