"""Generations on their way to an engine: encoded, sent, filled, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from agentrt.backend import Fill, GenerateRequest
from agentrt.errors import ContextOverflow, InternalError
from agentrt.events import Event, HoleFilled, PromptRevised, RequestSent
from agentrt.ids import RequestId
from agentrt.program import Gen
from agentrt.runtime.engine import Engine
from agentrt.runtime.finish import failed
from agentrt.runtime.live import Live
from agentrt.runtime.overflow import Rooms, work_of
from agentrt.runtime.prompts import Prompt, is_rewritten, may_shrink, prompt_of
from agentrt.runtime.reading import reader_of
from agentrt.runtime.revision import Revisions
from agentrt.runtime.run import Run


class Generations:
    """Those under way, by request.

    Attributes:
        live: By request id.
    """

    def __init__(self, engines: Mapping[str, Engine], revisions: Revisions, rooms: Rooms) -> None:
        self._revisions = revisions
        self._rooms = rooms
        self.live: dict[RequestId, Live] = {}
        self._by_node: dict[tuple[str, str], Live] = {}
        self._engines = engines
        self._ids = count()

    def of(self, run: Run, gen: Gen[Any]) -> Live | None:
        """The request of a generation, when it has one."""
        return self._by_node.get((run.run_id, gen.id))

    def forget(self, live: Live) -> None:
        """A request is over."""
        self.live.pop(live.request_id, None)
        self._by_node.pop((live.run_id, live.gen.id), None)

    def send(
        self, run: Run, gen: Gen[Any], demanded: bool, deadline_at_s: float | None
    ) -> list[Event]:
        """Hand a generation to its engine, with holes where the engine takes them."""
        work = work_of(gen)
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
        request_id = RequestId(next(self._ids))
        reader = reader_of(gen, engine.capabilities.call_frame)
        live = Live(run.run_id, gen, engine, request_id, reader)
        live.complete = prompt.complete
        live.sent_ids = prompt.token_ids
        self.live[request_id] = live
        self._by_node[run.run_id, gen.id] = live
        sampling = work.sampling
        if prompt.max_tokens != sampling.max_tokens:
            sampling = replace(sampling, max_tokens=prompt.max_tokens)
        now_s = run.now_s()
        events = list(prompt.losses)
        if live.complete and gen.id in run.waited_for_parts:
            events.append(HoleFilled(run.run_id, gen.id, now_s))
        name, model = engine.capabilities.backend, engine.capabilities.model
        sent = RequestSent(run.run_id, gen.id, request_id, name, model, live.complete, now_s)
        engine.backend.submit(
            GenerateRequest(
                request_id,
                run.run_id,
                gen.id,
                gen.site,
                prompt.sent,
                sampling,
                constraint=work.output.constraint,
                on_limit=work.on_limit,
                demanded=demanded,
                deadline_at_s=deadline_at_s,
                submitted_at_s=now_s,
                keep_special=work.output.kind in ("calls", "step"),
            )
        )
        return [*events, sent]

    def fill(self, run: Run, gen: Gen[Any]) -> list[Event]:
        """Bring a prompt up to date; ends the node when one of its inputs has failed."""
        live = self.of(run, gen)
        if live is None:  # not sent yet: only look whether an input has failed
            try:
                work_of(gen).chat.segments()
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
            live.engine.backend.fill(live.request_id, Fill(more, prompt.complete))
        if live.complete:
            events.append(HoleFilled(run.run_id, gen.id, run.now_s()))
        return events

    def refused(self, run: Run, live: Live, error: Exception | None) -> bool:
        """Whether the program is asked for a shorter prompt, now that the engine refused this."""
        if not isinstance(error, ContextOverflow) or live.begun:
            return False
        return self._revisions.begin(run, live.gen, live.engine, error)

    def stop(self, live: Live, error: Exception, reason: str) -> None:
        """Tell the engine to end a request; its node ends with `error` when it has."""
        if live.stop_error is None:
            live.stop_error = error
            live.engine.backend.cancel(live.request_id, reason)

    def _revised(self, run: Run, live: Live, refused: ContextOverflow | None) -> bool:
        if not self._revisions.begin(run, live.gen, live.engine, refused):
            return False
        self._take_back(live, "its prompt is too long")
        return True

    def _take_back(self, live: Live, reason: str) -> None:
        """End a request whose node goes on with another one; what it computed stays in the tree."""
        self.forget(live)
        live.engine.backend.cancel(live.request_id, reason)


def _extends(prompt: Prompt, live: Live) -> bool:
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
