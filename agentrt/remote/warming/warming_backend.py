"""`WarmingBackend`: an engine behind HTTP takes prompts with holes, and computes them up to there.

No protocol lets a prompt be sent in parts. So a request with holes waits here; what is known of it
is sent as a warm-up, for the sake of the engine's prefix cache alone. The request itself goes out
with the last fill, and finds its beginning in the cache. Whether there is room for a warm-up is
decided at each server; one that fails or is refused is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

from agentrt.base.clock import Clock
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Backend,
    Capabilities,
    GenerateRequest,
    HoleFill,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.backend_layer import BackendLayer
from agentrt.protocol.step_output import BackendDown, BackendEvent, Delta, End
from agentrt.remote.warming.held_request import HeldRequest
from agentrt.remote.warming.known_prefixes import KnownPrefixes
from agentrt.remote.warming.rendered_prefix import likely_ids
from agentrt.remote.warming.warm_prefix import prefix_to_warm

MOST_AT_ONCE = 8
"""Warm-ups under way, over all servers of a fleet."""

_FIRST_ID = -(2**40)
"""Ids of warm-ups are below it: the runtime has all others."""


class WarmingBackend(BackendLayer):
    """An engine with holes.

    Args:
        backend: The engine; it takes `ahead` requests.
        clock: Clock of the ledgers.
        block_tokens: Tokens of a block of its prefix cache.

    Attributes:
        computed_tokens: Prompt tokens that warm-ups have computed.
    """

    def __init__(self, backend: Backend, clock: Clock, block_tokens: int) -> None:
        super().__init__(backend)
        self._clock = clock
        self._block_tokens = block_tokens
        self.computed_tokens = 0
        self._numbers = count(_FIRST_ID, -1)
        self._known = KnownPrefixes()
        self._held: dict[RequestId, HeldRequest] = {}
        self._sent: dict[RequestId, tuple[GenerateRequest, list[int]]] = {}
        self._filled: dict[RequestId, HeldRequest] = {}
        self._warm_ups: dict[RequestId, HeldRequest] = {}

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._backend.capabilities, holes=True, prefills_ahead=False)

    @property
    def warm_ups(self) -> int:
        """Warm-ups under way."""
        return len(self._warm_ups)

    def submit(self, request: GenerateRequest) -> None:
        if request.prompt.complete:
            self._send(request)
            return
        held = self._held[request.request_id] = HeldRequest(request, self._clock.now_s())
        self._warm(held)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        held = self._held.get(request_id)
        if held is None:
            return
        held.fill(fill)
        if fill.complete:
            self._let_go(held)
        else:
            self._warm(held)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        for info in updates:
            if held := self._held.get(info.request_id):
                held.update(info)
        self._backend.update(updates)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        if held := self._held.get(request_id):
            self._let_go(held)  # its end comes from the engine, as all ends do
        self._backend.cancel(request_id, reason)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """All events of the engine, without those of warm-ups."""
        async for event in self._backend.events():
            if isinstance(event, BackendDown):
                self._known.forget_all()
                yield event
                continue
            for delta in event.deltas:
                self._note_output(delta)
            own = [end for end in event.ends if end.request_id in self._warm_ups]
            for end in own:
                self._end_warm_up(end)
            if event.ends:
                no_room = all(end in own and end.reason == "failed" for end in event.ends)
                self._warm_held(has_room=not no_room)
            kept = tuple(self._ended(end) for end in event.ends if end not in own)
            if not own or kept or event.deltas or event.admissions or event.kv_room_tokens:
                yield replace(event, ends=kept) if event.ends else event

    async def aclose(self) -> None:
        for request_id in tuple(self._held):
            self.cancel(request_id, "the engine ends")
        await self._backend.aclose()

    def _send(self, request: GenerateRequest) -> None:
        prompt = request.prompt
        if isinstance(prompt, TokenPrompt):
            token_ids = [*prompt.token_ids, *request.output_ids]
        else:
            token_ids = [*likely_ids(prompt.segments, prompt.tools)]
        self._sent[request.request_id] = (request, token_ids)
        self._backend.submit(request)

    def _let_go(self, held: HeldRequest) -> None:
        """Hand a request to the engine; its warm-up has nothing to gain any more."""
        request_id = held.request.request_id
        del self._held[request_id]
        self._filled[request_id] = held
        if held.warm_up is not None:
            self._backend.cancel(held.warm_up, "its prompt is complete, or nothing needs it")
        self._send(held.request)

    def _warm_held(self, *, has_room: bool) -> None:
        """Warm prompts that have grown meanwhile, or for which there was no room before."""
        for held in self._held.values():
            held.is_refused = held.is_refused and not has_room
            self._warm(held)

    def _warm(self, held: HeldRequest) -> None:
        if held.warm_up is not None or held.is_refused or len(self._warm_ups) >= MOST_AT_ONCE:
            return
        token_ids, salt = held.token_ids, held.request.cache_salt
        if not prefix_to_warm(len(token_ids), held.reached_tokens, self._block_tokens):
            return
        known_tokens = self._known.reached_tokens(token_ids, salt)
        held.reached_tokens = max(held.reached_tokens, known_tokens)
        tokens = prefix_to_warm(len(token_ids), held.reached_tokens, self._block_tokens)
        if tokens:
            warm_up = held.begin_warm_up(RequestId(next(self._numbers)), tokens)
            self._warm_ups[warm_up.request_id] = held
            self._known.note(token_ids[:tokens], salt)
            self._backend.submit(warm_up)

    def _end_warm_up(self, end: End) -> None:
        held = self._warm_ups.pop(end.request_id)
        before_tokens = held.warmed_tokens
        gave_way = held.request.request_id in self._held
        if not held.end_warm_up(end) and (gave_way or end.reason == "failed"):
            prefix = held.token_ids[: held.warming_tokens]
            self._known.forget_from(prefix, held.request.cache_salt, held.reached_tokens)
        self.computed_tokens += held.warmed_tokens - before_tokens

    def _note_output(self, delta: Delta) -> None:
        if sent := self._sent.get(delta.request_id):
            sent[1].extend(delta.token_ids)  # those of messages end with the prompt

    def _ended(self, end: End) -> End:
        """The end of a request, with its warm-ups; the cache has its prompt and output now."""
        sent = self._sent.pop(end.request_id, None)
        if sent is not None and end.reason in ("stop", "length"):
            self._known.note(sent[1], sent[0].cache_salt)
        held = self._filled.pop(end.request_id, None)
        return end if held is None else held.ended(end)
