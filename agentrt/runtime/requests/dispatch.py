"""Generations on their way to an engine: encoded, sent, filled, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt.base.errors import ContextOverflow, InternalError
from agentrt.base.ids import RequestId
from agentrt.program import Gen
from agentrt.protocol.backend import GenerateRequest, HoleFill, SchedulingInfo, TokenPrompt
from agentrt.protocol.events import Event, HoleFilled, PromptRevised, RequestSent, Scheduled
from agentrt.runtime.completion import failed
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.output_readers import reader_of
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.coalescing import CoalescedRequest, Coalescing
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.requests.prompt_revision import PromptRevisions
from agentrt.runtime.requests.prompts import Prompt, is_rewritten, may_shrink, prompt_of
from agentrt.runtime.run import Run


class RequestDispatcher:
    """Those under way, by request.

    Attributes:
        live: By the id that their engine knows; of several that share a request the first.
        left: Those that shared a request which goes on without them: they end now.
    """

    def __init__(
        self,
        engines: Mapping[str, ModelRole],
        revisions: PromptRevisions,
        rooms: ContextWindows,
        sharing: Coalescing,
        retention: KvRetention,
    ) -> None:
        self._revisions = revisions
        self._sharing = sharing
        self._retention = retention
        self.left: list[InFlight] = []
        self._rooms = rooms
        self.live: dict[RequestId, InFlight] = {}
        self._by_node: dict[tuple[str, str], InFlight] = {}
        self._by_request: dict[RequestId, InFlight] = {}
        self._engines = engines

    def of(self, run: Run, gen: Gen[Any]) -> InFlight | None:
        """The request of a generation, when it has one."""
        return self._by_node.get((run.run_id, gen.id))

    def forget(self, live: InFlight) -> None:
        """A request is over, or goes on without this node."""
        self._by_node.pop((live.run_id, live.gen.id), None)
        self._by_request.pop(live.request_id, None)
        shared = live.shared
        if shared is None:
            self.live.pop(live.request_id, None)
            return
        self._sharing.leave(shared, live)
        if self.live.get(shared.request_id) is live:
            del self.live[shared.request_id]
            if shared.lives:
                self.live[shared.request_id] = shared.lives[0]

    def send(
        self, run: Run, gen: Gen[Any], info: SchedulingInfo, held_s: float = 0.0
    ) -> list[Event]:
        """Hand a generation to its engine, with holes where the engine takes them.

        Args:
            run: Of the node.
            gen: What is generated.
            info: Scheduling info of the request, its number included.
            held_s: How long the admission gate has held it.
        """
        work = gen.work
        engine = self._engines[work.model]
        try:
            prompt = prompt_of(run, gen, engine, self._rooms)
        except ContextOverflow as refused:
            if may_shrink(work.chat):
                run.deferred.add(gen.id)
                return []
            if self._revisions.begin(run, gen, engine, refused):
                return []
            return [failed(run, gen, refused)]
        except Exception as error:  # an input failed, or the prompt cannot be written
            return [failed(run, gen, error)]
        if (
            prompt.crowded
            and not may_shrink(work.chat)
            and self._revisions.begin(run, gen, engine, None)
        ):
            return []
        run.has_sent = True
        request_id = info.request_id
        takes = engine.capabilities
        reader = reader_of(gen, takes.call_frame)
        live = InFlight(run.run_id, gen, engine, request_id, reader)
        live.complete = prompt.complete
        live.sent_ids = prompt.token_ids
        self._by_node[run.run_id, gen.id] = self._by_request[request_id] = live
        sampling = work.sampling
        if prompt.max_tokens != sampling.max_tokens:
            sampling = replace(sampling, max_tokens=prompt.max_tokens)
        now_s = run.now_s()
        events = list(prompt.losses)
        if live.complete and gen.id in run.waited_for_parts:
            events.append(HoleFilled(run.run_id, gen.id, now_s))
        sent = RequestSent(
            run.run_id,
            gen.id,
            request_id,
            takes.backend,
            takes.model,
            live.complete,
            now_s,
            held_s,
            len(prompt.token_ids),
        )
        request = GenerateRequest(
            request_id,
            run.run_id,
            gen.id,
            gen.site,
            prompt.sent,
            sampling,
            constraint=work.output.constraint,
            on_limit=work.on_limit,
            demanded=info.demanded,
            deadline_at_s=info.deadline_at_s,
            submitted_at_s=now_s,
            keep_special=work.output.keep_special or work.thinking_tokens is not None,
            info=info,
            thinking_tokens=work.thinking_tokens,
            scored=work.scored,
            cache_salt=run.options.cache_salt,
        )
        live.request = request
        live.keeps_prefixes = run.options.keeps_prefixes
        if self._retention.is_on and not gen.attempts:  # nobody goes on from a retry
            self._retention.asked(live)
        if takes.seeds and live.complete and (joined := self._joined(run, live, request)):
            return [*events, sent, joined]
        self.live[request_id] = live
        engine.backend.submit(request)
        return [*events, sent]

    def _joined(self, run: Run, live: InFlight, request: GenerateRequest) -> Event | None:
        """Let it have what a like request gives that is under way; None when there is none.

        From now on others may join it then.
        """
        shared = self._sharing.find(request, live.engine)
        if shared is None:
            self._sharing.lead(live, request)
            return None
        before = shared.merged()
        first = shared.lives[0]
        now_s = run.now_s()
        shared.join(live, request, now_s)
        self._urge(shared, before)
        sent_at_s = shared.request.submitted_at_s
        terms = (("behind_s", now_s - sent_at_s), ("tokens_so_far", float(len(first.token_ids))))
        reason = f"{first.gen.label} of run {first.run_id} asks the same"
        return Scheduled(run.run_id, live.gen.id, now_s, "joined", reason, terms=terms)

    def _urge(self, shared: CoalescedRequest, before: SchedulingInfo) -> None:
        """Tell the engine where a request stands now, if that has changed."""
        if shared.lives and (now := shared.merged()) != before:
            shared.lives[0].engine.backend.update((now,))

    def update(self, role: str, updates: tuple[SchedulingInfo, ...]) -> None:
        """Tell an engine what has changed for nodes, each by the request that computes it."""
        told: dict[RequestId, SchedulingInfo] = {}
        for one in updates:
            live = self._by_request.get(one.request_id)
            if live is None:
                continue
            live.info = one
            if live.shared is not None:
                live.shared.info_of[one.request_id] = one
                one = live.shared.merged()
            told[one.request_id] = one
        if told:
            self._engines[role].backend.update(tuple(told.values()))

    def fill(self, run: Run, gen: Gen[Any]) -> list[Event]:
        """Bring a prompt up to date; ends the node when one of its inputs has failed."""
        live = self.of(run, gen)
        if live is None:  # not sent yet: only look whether an input has failed
            try:
                gen.work.chat.segments()
            except Exception as error:
                return [failed(run, gen, error)]
            if gen.id not in run.deferred:
                return []
            run.deferred.discard(gen.id)
            return [PromptRevised(run.run_id, gen.id, (), run.now_s())]
        if live.complete or live.stop_error is not None:
            return []
        try:
            prompt = prompt_of(run, gen, live.engine, self._rooms)
            extends = _extends(prompt, live)
        except ContextOverflow as refused:
            if may_shrink(gen.prompt):
                self._take_back(live, "its prompt is too long")
                run.deferred.add(gen.id)
            elif not self._revised(run, live, refused):
                self.stop(live, refused, "its prompt does not fit")
            return []
        except Exception as error:
            self.stop(live, error, "an input of it failed")
            return []
        if prompt.crowded and not may_shrink(gen.prompt) and self._revised(run, live, None):
            return []
        if not extends:  # a prompt that it continues was made shorter
            self._take_back(live, "its prompt has changed")
            return [PromptRevised(run.run_id, gen.id, (), run.now_s())]
        events = list(prompt.losses)
        more = prompt.token_ids[len(live.sent_ids) :]
        if more or prompt.complete:
            live.sent_ids = prompt.token_ids
            live.complete = prompt.complete
            if self._retention.is_on:
                self._retention.asked(live)
            if joined := self._joins_now(run, live):
                events.append(joined)
            else:
                live.engine.backend.fill_hole(live.request_id, HoleFill(more, prompt.complete))
        if live.complete:
            events.append(HoleFilled(run.run_id, gen.id, run.now_s()))
        return events

    def _joins_now(self, run: Run, live: InFlight) -> Event | None:
        """Whether a prompt that has just become whole is that of a like request under way."""
        if not live.complete or live.request is None or not live.engine.capabilities.seeds:
            return None
        whole = replace(live.request, prompt=TokenPrompt(live.sent_ids))
        joined = self._joined(run, live, whole)
        if joined is not None:
            del self.live[live.request_id]
            live.engine.backend.cancel(live.request_id, "a like one is under way")
        return joined

    def refused(self, run: Run, live: InFlight, error: Exception | None) -> bool:
        """Whether the program is asked for a shorter prompt, now that the engine refused this."""
        if not isinstance(error, ContextOverflow) or live.begun:
            return False
        return self._revisions.begin(run, live.gen, live.engine, error)

    def stop(self, live: InFlight, error: Exception, reason: str) -> None:
        """Tell the engine to end a request; its node ends with `error` when it has.

        A request that others want too goes on, and the node is one of `left`.
        """
        if live.stop_error is not None:
            return
        live.stop_error = error
        shared = live.shared
        if shared is None or len(shared.lives) == 1:
            live.engine.backend.cancel(live.engine_id, reason)
            return
        before = shared.merged()
        self.forget(live)
        self.left.append(live)
        self._urge(shared, before)

    def _revised(self, run: Run, live: InFlight, refused: ContextOverflow | None) -> bool:
        if not self._revisions.begin(run, live.gen, live.engine, refused):
            return False
        self._take_back(live, "its prompt is too long")
        return True

    def _take_back(self, live: InFlight, reason: str) -> None:
        """End a request whose node goes on with another one; what it computed stays in the tree."""
        self.forget(live)
        live.engine.backend.cancel(live.request_id, reason)


def _extends(prompt: Prompt, live: InFlight) -> bool:
    """Whether the prompt goes on from what the engine was sent.

    Raises:
        InternalError: It does not, and nothing in it was rewritten.
    """
    if prompt.token_ids[: len(live.sent_ids)] == live.sent_ids:
        return True
    if is_rewritten(live.gen.prompt):
        return False
    raise InternalError(
        f"the prompt of {live.gen.label} changed while it was being filled: "
        f"{len(live.sent_ids)} tokens were sent and are not its beginning any more"
    )
