"""An engine under a replay: it is given the true ends of outputs, and a policy that foresees more.

The runtime above sees requests as authors write them, with the limits of their call sites.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from agentrt.base.config import REPLAY_POLICIES, PolicyName
from agentrt.base.ids import RequestId, RunId
from agentrt.lab.arms.replay import Play
from agentrt.protocol.backend import Backend, GenerateRequest, SchedulingInfo
from agentrt.protocol.backend_layer import BackendLayer
from agentrt.protocol.step_output import BackendEvent, End, StepDone
from agentrt.scheduler import policy as policy_named


class ReplayBackend(BackendLayer):
    """Passes everything on to an engine, with what a replay knows.

    Args:
        backend: The engine.
        plays: Plays by run, while they are under way.
        policy: Policy of the engine.
        cuts: Whether the engine cannot replay: the limit of its request is then the true length,
            which the runtime above and its policy do not see.
    """

    def __init__(
        self,
        backend: Backend,
        plays: Mapping[RunId, Play],
        policy: PolicyName,
        *,
        cuts: bool = False,
    ) -> None:
        super().__init__(backend)
        self._plays = plays
        self._cuts = cuts
        self._knows_rest = policy in REPLAY_POLICIES
        self._knows_lengths = policy_named(policy).foresees
        self._lengths: dict[RequestId, float] = {}

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
            if ends and self._cuts:
                sampling = replace(request.sampling, max_tokens=ends)
                request = replace(request, sampling=sampling, replayed_tokens=0)
        self._backend.submit(request)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests."""
        known = tuple(map(self._known, updates)) if self._knows_rest else updates
        self._backend.update(known)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """All events of the engine, in order."""
        async for event in self._backend.events():
            if isinstance(event, StepDone):
                for end in event.ends:
                    self._lengths.pop(end.request_id, None)
                if self._cuts and event.ends:
                    event = replace(event, ends=tuple(map(_as_ended, event.ends)))
            yield event

    def _known(self, info: SchedulingInfo) -> SchedulingInfo:
        """The scheduling info of a request, with the true service that its run still needs."""
        play = self._plays.get(info.run_id)
        if play is None or not self._knows_rest:
            return info
        length = self._lengths.get(info.request_id, info.output_tokens)
        return replace(info, true_rest_s=play.rest_s, output_tokens=length)


def _as_ended(end: End) -> End:
    """The end of an output that was cut at its true length, as if the model had ended it."""
    return replace(end, reason="stop") if end.reason == "length" else end
