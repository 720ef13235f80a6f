"""The KV events of a fleet, followed for its placement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from agentrt.base.engines.kv_events import KvEvents
from agentrt.remote.fleet.fleet_placement import FleetPlacement
from agentrt.remote.fleet.kv_subscription import (
    DEFAULT_SUBSCRIPTION_TIMES,
    KvSubscription,
    SubscriptionTimes,
    imported_zmq,
)
from agentrt.remote.task_ends import end_tasks
from agentrt.scheduler.placement.held_blocks import ClearedBlocks, HeldBlocks, KvEvent

_log = logging.getLogger("agentrt")


class KvFeeds:
    """The KV events of the workers of one fleet.

    Args:
        sources: Where workers publish them, by the name of the worker.
        has_ids: Whether prompts go as token ids. Blocks are named by their tokens, so a prompt that
            the server writes cannot be told from them, and only a cache that is cleared counts.
        times: Times of the subscriptions.

    Raises:
        NotInstalled: ZeroMQ is not installed.
    """

    def __init__(
        self,
        sources: Mapping[str, KvEvents],
        *,
        has_ids: bool,
        times: SubscriptionTimes = DEFAULT_SUBSCRIPTION_TIMES,
    ) -> None:
        imported_zmq()
        self._has_ids = has_ids
        self._placement: FleetPlacement | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._blocks = {name: HeldBlocks() for name in sources}
        self.subscriptions = {
            name: KvSubscription(name, source, partial(self._note, name), times)
            for name, source in sources.items()
        }

    def start(self, placement: FleetPlacement) -> None:
        """Follow the events for a placement, if that has not begun."""
        if self._tasks:
            return
        if not self._has_ids:
            _log.warning(
                "prompts of %s go as messages: of KV events only a cleared cache counts there "
                "(give tokenizer = DIRECTORY)",
                ", ".join(self.subscriptions),
            )
        self._placement = placement
        self._tasks = [asyncio.create_task(one.run()) for one in self.subscriptions.values()]

    async def aclose(self) -> None:
        """Follow no events any more."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    def _note(self, name: str, events: Sequence[KvEvent]) -> None:
        if not self._has_ids:
            events = [one for one in events if isinstance(one, ClearedBlocks)]
        changes = self._blocks[name].fold(events)
        if self._placement is not None and changes:
            self._placement.note_blocks(name, changes)
