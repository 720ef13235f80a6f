"""Generations on their way to an engine: encoded, sent, filled, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from agentrt.backend import Fill, GenerateRequest, MessagePrompt, TokenPrompt
from agentrt.events import Event, HoleFilled, PrefixLost, RequestSent
from agentrt.ids import RequestId
from agentrt.program import Gen, GenerateWork
from agentrt.prompt import Encoded
from agentrt.runtime.engine import Engine
from agentrt.runtime.finish import failed
from agentrt.runtime.live import Live
from agentrt.runtime.overflow import room_for_output
from agentrt.runtime.reading import reader_of
from agentrt.runtime.run import Run
from agentrt.segments import Segment


class Generations:
    """Those under way, by request.

    Attributes:
        live: By request id.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
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
        work = gen.work
        assert isinstance(work, GenerateWork)
        engine = self._engines[work.model]
        try:
            segments = work.chat.segments()
            prompt, max_tokens, events = self._prompt(run, gen, work, engine, segments)
        except Exception as error:  # an input failed, the prompt is too long or cannot be written
            return [failed(run, gen, error)]
        request_id = RequestId(next(self._ids))
        reader = reader_of(gen, engine.capabilities.call_frame)
        live = Live(run.run_id, gen, engine, request_id, reader)
        live.complete = not isinstance(prompt, TokenPrompt) or prompt.complete
        live.sent_tokens = len(prompt.token_ids) if isinstance(prompt, TokenPrompt) else 0
        self.live[request_id] = live
        self._by_node[run.run_id, gen.id] = live
        sampling = work.sampling
        if max_tokens != sampling.max_tokens:
            sampling = replace(sampling, max_tokens=max_tokens)
        now_s = run.now_s()
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
                prompt,
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
        work = gen.work
        assert isinstance(work, GenerateWork)
        live = self.of(run, gen)
        if live is None:  # not sent yet: only look whether an input has failed
            try:
                work.chat.segments()
            except Exception as error:
                return [failed(run, gen, error)]
            return []
        if live.complete or live.stop_error is not None:
            return []
        try:
            segments = work.chat.segments()
            prompt, _, events = self._prompt(run, gen, work, live.engine, segments)
        except Exception as error:
            self.stop(live, error, "an input of it failed")
            return []
        assert isinstance(prompt, TokenPrompt)
        more = prompt.token_ids[live.sent_tokens :]
        if more or prompt.complete:
            live.sent_tokens = len(prompt.token_ids)
            live.complete = prompt.complete
            live.engine.backend.fill(live.request_id, Fill(more, prompt.complete))
        if live.complete:
            events.append(HoleFilled(run.run_id, gen.id, run.now_s()))
        return events

    def stop(self, live: Live, error: Exception, reason: str) -> None:
        """Tell the engine to end a request; its node ends with `error` when it has."""
        if live.stop_error is None:
            live.stop_error = error
            live.engine.backend.cancel(live.request_id, reason)

    def _prompt(
        self, run: Run, gen: Gen[Any], work: GenerateWork, engine: Engine, segments: list[Segment]
    ) -> tuple[TokenPrompt | MessagePrompt, int, list[Event]]:
        takes = engine.capabilities
        max_tokens = work.sampling.max_tokens
        if engine.codec is None or takes.prompt == "messages":
            return MessagePrompt(tuple(segments), work.chat.tools), max_tokens, []
        encoded = engine.codec.encode(work.chat.tools, segments)
        window = takes.window_tokens or engine.codec.window_tokens
        if window:
            prompt_tokens = len(encoded.token_ids)
            room = room_for_output(engine.codec, window, gen, work, segments, prompt_tokens)
            max_tokens = min(max_tokens, room)
        losses = self._losses(run, gen, encoded)
        return TokenPrompt(encoded.token_ids, encoded.complete), max_tokens, losses

    def _losses(self, run: Run, gen: Gen[Any], encoded: Encoded) -> list[Event]:
        if not encoded.complete:
            return []
        lost = [(loss.lost_tokens, str(loss.reason)) for loss in encoded.losses]
        before = gen.prompt.answered
        if before is not None and before.prompt.tools != gen.prompt.tools:
            ledger = before.meta.ledger  # tools stand at the root: all that follows is new
            lost.append((ledger.prompt_tokens + ledger.output_tokens, "tools_changed"))
        return [PrefixLost(run.run_id, gen.id, *one, run.now_s()) for one in lost]
