"""Like generations under way are computed once: who comes second gets what the first gets.

Two requests are alike when an engine must answer them with the same tokens: the same prompt, picked
in the same way (greedily, or with the same seed), under the same constraint and limits. Each node
keeps its own events, its own deadline and its own end; the engine computes for as long as one of
them wants it. A prompt with holes is unlike any other until it is complete.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import Delta, Ledger
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.model_role import ModelRole

Bucket = tuple[object, ...]

_NO_REQUEST, _NO_RUN, _NO_NODE = RequestId(-1), RunId(""), NodeId("")


class CoalescedRequest:
    """One request of an engine, and the nodes that get what it gives.

    Attributes:
        request: As it was sent, with its whole prompt.
        bucket: Where it is found.
        lives: Those nodes; the first one has its name at the engine.
        deltas: All that the engine has given.
        info_of: Scheduling info of each node's request.
    """

    __slots__ = ("bucket", "deltas", "info_of", "lives", "request")

    def __init__(self, request: GenerateRequest, bucket: Bucket, first: InFlight) -> None:
        self.request = request
        self.bucket = bucket
        self.lives = [first]
        self.deltas: list[Delta] = []
        self.info_of: dict[RequestId, SchedulingInfo] = {}
        self._note(first, request)

    @property
    def request_id(self) -> RequestId:
        """At the engine."""
        return self.request.request_id

    def may_be_joined(self, request: GenerateRequest) -> bool:
        """Not where the end of one would cut off the other.

        An engine that was told to end it does so, and it closes an output at its deadline.
        """
        if self.lives[0].stop_error is not None:
            return False
        closes = request.on_limit == "close"
        deadlines = [request.deadline_at_s, *(one.deadline_at_s for one in self.info_of.values())]
        return not closes or all(at_s is None for at_s in deadlines)

    def join(self, live: InFlight, request: GenerateRequest, now_s: float) -> None:
        """One more node gets what it gives, all that it gave so far first."""
        live.shared = self
        live.joined_at_s = now_s
        self.lives.append(live)
        self._note(live, request)

    def news_for(self, live: InFlight) -> list[Delta]:
        """What it has given since the node was last handed something."""
        news = self.deltas[live.taken_deltas :]
        live.taken_deltas = len(self.deltas)
        return news

    def _note(self, live: InFlight, request: GenerateRequest) -> None:
        """What is known of one of its nodes when it comes in."""
        known = live.info or request.info
        self.info_of[live.request_id] = known or SchedulingInfo(
            live.request_id, request.demanded, deadline_at_s=request.deadline_at_s
        )

    def merged(self) -> SchedulingInfo:
        """What the engine should go by: it is as urgent as the most urgent of its nodes.

        An output that is closed at its deadline is closed for all, so only when all want it closed.
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
    """Requests under way that others may join, by what they ask for.

    Args:
        is_on: Whether anything is shared at all.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self._by_bucket: dict[Bucket, list[CoalescedRequest]] = {}

    def find(self, request: GenerateRequest, engine: ModelRole) -> CoalescedRequest | None:
        """A request under way that gives what this one would give, or None.

        To be asked of engines that promise the same answer to the same request.
        """
        for shared in self._by_bucket.get(_bucket(request, engine.role), ()):
            if shared.may_be_joined(request) and _content(shared.request) == _content(request):
                return shared
        return None

    def lead(self, live: InFlight, request: GenerateRequest) -> None:
        """From now on others may join this request, whose prompt is complete."""
        if self._is_on:
            bucket = _bucket(request, live.engine.role)
            live.shared = CoalescedRequest(request, bucket, live)
            self._by_bucket.setdefault(bucket, []).append(live.shared)

    def leave(self, shared: CoalescedRequest, live: InFlight) -> None:
        """A node has its end; nobody may join what nobody wants."""
        if live not in shared.lives:
            return
        shared.lives.remove(live)
        del shared.info_of[live.request_id]
        if shared.lives:
            return
        found = self._by_bucket[shared.bucket]
        found.remove(shared)
        if not found:
            del self._by_bucket[shared.bucket]

    def __len__(self) -> int:
        """How many may be joined."""
        return sum(map(len, self._by_bucket.values()))


def left_ledger(live: InFlight, now_s: float) -> Ledger:
    """The account of a node that left a request before its end, from what it saw of it."""
    request = live.request
    assert request is not None
    since_s = request.submitted_at_s if live.joined_at_s is None else live.joined_at_s
    first_at_s = live.gen.first_token_at_s if live.begun else now_s
    prompt_tokens = len(live.sent_ids)
    return Ledger(
        received_at_s=since_s,
        completed_at_s=since_s,
        admitted_at_s=since_s,
        first_token_at_s=live.gen.first_token_at_s,
        finished_at_s=now_s,
        queue_s=max(0.0, first_at_s - since_s),
        decode_s=max(0.0, now_s - first_at_s),
        prompt_tokens=prompt_tokens,
        cached_tokens=prompt_tokens if live.joined_at_s is not None else 0,
        output_tokens=len(live.token_ids),
        source="inferred",
    )


def ledger_of(ledger: Ledger, joined_at_s: float) -> Ledger:
    """The account of a node that joined a request when it had been under way for a while.

    Nothing was computed for it, so all of its prompt was there and it took part in no step. It had
    the last of what the request did: its tokens, before that its prompt, before that the queue.
    """
    left_s = max(0.0, ledger.finished_at_s - max(joined_at_s, ledger.completed_at_s))
    lasted = (
        ledger.decode_s,
        ledger.prefill_s,
        ledger.kv_reload_s,
        ledger.constraint_s,
        ledger.queue_s,
    )
    parts: list[float] = []
    for seconds in lasted:
        parts.append(min(left_s, seconds))
        left_s -= parts[-1]
    decode_s, prefill_s, kv_reload_s, constraint_s, queue_s = parts
    first_at_s = ledger.first_token_at_s
    return replace(
        ledger,
        received_at_s=max(joined_at_s, ledger.received_at_s),
        completed_at_s=max(joined_at_s, ledger.completed_at_s),
        admitted_at_s=max(joined_at_s, ledger.admitted_at_s),
        first_token_at_s=max(joined_at_s, first_at_s) if first_at_s else 0.0,
        queue_s=queue_s,
        kv_reload_s=kv_reload_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        constraint_s=constraint_s,
        cached_tokens=ledger.prompt_tokens,
        cached_host_tokens=0,
        recomputed_tokens=0,
        prefill_chunks=0,
        steps=0,
        batch_size_sum=0,
        preemptions=0,
    )


def _bucket(request: GenerateRequest, role: str) -> Bucket:
    """Equal for like requests, and cheap: a prompt may have many thousand tokens."""
    prompt = request.prompt
    parts: tuple[object, ...] = (
        prompt.token_ids if isinstance(prompt, TokenPrompt) else prompt.segments
    )
    sampling = request.sampling
    return (role, len(parts), parts[-8:], sampling.temperature and sampling.seed)


def _content(request: GenerateRequest) -> GenerateRequest:
    """What the answer depends on: all but whose request it is, and how urgent."""
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
    )


def _urgency(info: SchedulingInfo) -> tuple[bool, int, float]:
    return (not info.demanded, -info.priority, info.run_started_at_s)
