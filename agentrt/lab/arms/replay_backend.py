"""An engine under a replay: it is given the true ends of outputs, and a policy that foresees more.

The runtime above sees requests as authors write them, with the limits of their call sites.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from agentrt.base.config import REPLAY_POLICIES, PolicyName
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId, RunId
from agentrt.lab.arms.replay import Play
from agentrt.protocol.backend import (
    Backend,
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.step_output import BackendEvent
from agentrt.scheduler import policy as policy_named


class ReplayBackend:
    """Passes everything on to an engine, with what a replay knows.

    Args:
        backend: The engine.
        plays: Plays by run, while they are under way.
        policy: Policy of the engine.
    """

    def __init__(self, backend: Backend, plays: Mapping[RunId, Play], policy: PolicyName) -> None:
        self._backend, self._plays = backend, plays
        self._knows_rest = policy in REPLAY_POLICIES
        self._knows_lengths = policy_named(policy).foresees
        self._lengths: dict[RequestId, float] = {}

    @property
    def capabilities(self) -> Capabilities:
        """Features of the engine."""
        return self._backend.capabilities

    async def start(self) -> None:
        """Start the engine."""
        await self._backend.start()

    def submit(self, request: GenerateRequest) -> None:
        """Submit a request; free text ends at the length that its call had."""
        play = self._plays.get(request.run_id)
        call = None if play is None else play.call_of(request.node_id)
        if call is not None:
            if self._knows_lengths:
                self._lengths[request.request_id] = float(call["tokens"])
            info = request.info and self._known(request.info)
            ends = call["tokens"] if request.constraint is None else 0
            request = replace(request, info=info, replayed_tokens=ends)
        self._backend.submit(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a prompt."""
        self._backend.fill_hole(request_id, fill)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests."""
        known = tuple(map(self._known, updates)) if self._knows_rest else updates
        self._backend.update(known)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Stop a request."""
        self._backend.cancel(request_id, reason)

    def hint(self, hint: PrefixHint) -> None:
        """Give a hint about a prefix."""
        self._backend.hint(hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Compile constraints ahead."""
        self._backend.prewarm(constraints)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """All events of the engine, in order."""
        async for event in self._backend.events():
            for end in getattr(event, "ends", ()):
                self._lengths.pop(end.request_id, None)
            yield event

    async def aclose(self) -> None:
        """End the engine."""
        await self._backend.aclose()

    def _known(self, info: SchedulingInfo) -> SchedulingInfo:
        """The scheduling info of a request, with the true service that its run still needs."""
        play = self._plays.get(info.run_id)
        if play is None or not self._knows_rest:
            return info
        length = self._lengths.get(info.request_id, info.output_tokens)
        return replace(info, true_rest_s=play.rest_s, output_tokens=length)
