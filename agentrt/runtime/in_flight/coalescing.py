"""Request coalescing (deduplication): like generations in flight are computed once.

Two requests are alike if an engine must answer them with the same tokens: the same prompt, sampled
in the same way (greedily, or with the same seed), under the same constraint and limits. Each node
keeps its own events, its own deadline and its own end; the engine computes for as long as one of
them needs the output. A prompt with holes is like no other until it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import Delta

Bucket = tuple[object, ...]

_NO_REQUEST, _NO_RUN, _NO_NODE = RequestId(-1), RunId(""), NodeId("")


@dataclass(slots=True, eq=False)
class CoalescedRequest:
    """A request of an engine with an output that several nodes may share.

    Attributes:
        request: The request as it was sent, with its whole prompt.
        bucket: Key under which like requests are looked up.
        deltas: The output of the engine so far.
        info_of: Scheduling info of each node that shares it, by the id of the node's own request.
        stopping: Whether the engine has been told to end it.
    """

    request: GenerateRequest
    bucket: Bucket
    deltas: list[Delta] = field(default_factory=list)
    info_of: dict[RequestId, SchedulingInfo] = field(default_factory=dict)
    stopping: bool = False

    @property
    def request_id(self) -> RequestId:
        """The id by which the engine knows it."""
        return self.request.request_id

    def can_be_joined(self, request: GenerateRequest) -> bool:
        """Whether the end of one of the two cannot cut off the other.

        An engine ends a request that it was told to end, and closes an output at its deadline.
        """
        if self.stopping:
            return False
        closes = request.on_limit == "close"
        deadlines = [request.deadline_at_s, *(one.deadline_at_s for one in self.info_of.values())]
        return not closes or all(at_s is None for at_s in deadlines)

    def add_node(self, request: GenerateRequest, known: SchedulingInfo | None) -> None:
        """Let the node of a request share this one.

        Args:
            request: The request as the node would have sent it by itself.
            known: Scheduling info of the node if it has changed since, else None.
        """
        self.info_of[request.request_id] = (
            known
            or request.info
            or SchedulingInfo(
                request.request_id, request.demanded, deadline_at_s=request.deadline_at_s
            )
        )

    def merged_info(self) -> SchedulingInfo:
        """Scheduling info for the engine: as urgent as the most urgent of the nodes.

        An output that is closed at its deadline is closed for all nodes, so only if all want that.
        """
        infos = self.info_of.values()
        first = min(infos, key=_urgency)
        deadlines = [one.deadline_at_s for one in infos]
        known = [at_s for at_s in deadlines if at_s is not None]
        deadline_at_s = min(known, default=None)
        if self.request.on_limit == "close":
            deadline_at_s = max(known) if len(known) == len(deadlines) else None
        return replace(
            first,
            request_id=self.request_id,
            demanded=any(one.demanded for one in infos),
            deadline_at_s=deadline_at_s,
        )


class Coalescing:
    """Requests in flight that others may join, by their content.

    Args:
        is_on: Whether requests are coalesced at all.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self._by_bucket: dict[Bucket, list[CoalescedRequest]] = {}

    def find(
        self, request: GenerateRequest, role: str, *, is_cached: bool = False
    ) -> CoalescedRequest | None:
        """A request in flight with the same output as `request` would have, or None.

        Only for engines that promise the same answer to the same request, and for cached requests.
        """
        if not self._is_on and not is_cached:
            return None
        for coalesced in self._by_bucket.get(_bucket(request, role), ()):
            if coalesced.can_be_joined(request) and content_of(coalesced.request) == content_of(
                request
            ):
                return coalesced
        return None

    def open(
        self, request: GenerateRequest, role: str, *, is_cached: bool = False
    ) -> CoalescedRequest | None:
        """Let others join a request with a complete prompt; None if coalescing is off.

        A cached request is always joined: the next one gets its answer in any case.
        """
        if not self._is_on and not is_cached:
            return None
        bucket = _bucket(request, role)
        coalesced = CoalescedRequest(request, bucket)
        self._by_bucket.setdefault(bucket, []).append(coalesced)
        return coalesced

    def leave(self, coalesced: CoalescedRequest, request_id: RequestId) -> None:
        """Drop a node that has ended; without nodes a request can no longer be joined."""
        if coalesced.info_of.pop(request_id, None) is None or coalesced.info_of:
            return
        found = self._by_bucket[coalesced.bucket]
        found.remove(coalesced)
        if not found:
            del self._by_bucket[coalesced.bucket]

    def __len__(self) -> int:
        """How many requests can be joined."""
        return sum(map(len, self._by_bucket.values()))


def _bucket(request: GenerateRequest, role: str) -> Bucket:
    """A key that is equal for like requests, and cheap for prompts of many thousand tokens."""
    prompt = request.prompt
    parts: tuple[object, ...] = (
        prompt.token_ids if isinstance(prompt, TokenPrompt) else prompt.segments
    )
    sampling = request.sampling
    return (role, len(parts), parts[-8:], sampling.temperature and sampling.seed)


def content_of(request: GenerateRequest) -> GenerateRequest:
    """The part of a request on which the answer depends: not the node, its span or its urgency."""
    sampling = request.sampling
    if sampling.temperature == 0 and sampling.seed != 0:
        sampling = replace(sampling, seed=0)
    return replace(
        request,
        request_id=_NO_REQUEST,
        run_id=_NO_RUN,
        node_id=_NO_NODE,
        site="",
        sampling=sampling,
        demanded=False,
        deadline_at_s=None,
        submitted_at_s=0.0,
        info=None,
        traceparent="",
    )


def _urgency(info: SchedulingInfo) -> tuple[bool, int, float]:
    return (not info.demanded, -info.priority, info.run_started_at_s)
