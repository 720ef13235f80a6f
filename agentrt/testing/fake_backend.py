"""A scripted engine: answers from a script, step by step on the loop's clock.

It keeps every promise of the `Backend` contract that a real engine keeps (batches, holes, limits,
constraints, aborts, deadlines, ledgers; it passes the same contract suite), so that a test of a
program leaves out nothing but the model. With virtual time it never waits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import (
    AgentrtError,
    ContextOverflow,
    EngineDied,
    EngineUnavailable,
    Unsupported,
    record_of,
    revive,
)
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    MessagePrompt,
    PrefixHint,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendDown, BackendEvent, Delta, End, StepDone, StepRecord
from agentrt.testing.answer import CANCELLED, Answerer, failed
from agentrt.testing.request import ScriptedRequest
from agentrt.testing.script import Answers, Reply, Script, prompt_text
from agentrt.testing.seen import SeenByBackend
from agentrt.testing.spelling import ByteSpelling, CodecSpelling, Spelling
from agentrt.testing.timed_answers import TimedAnswers

if TYPE_CHECKING:
    from agentrt.prompt import Codec

DEADLINE_STEPS = 2.0
"""Number of steps before a deadline at which outputs are closed, as in the embedded engine."""


class ScriptedBackend:
    """A `Backend` that answers from a script.

    Example:
        >>> from agentrt.testing import LoopClock
        >>> ScriptedBackend(lambda request, prompt: "yes", clock=LoopClock()).capabilities.backend
        'scripted'

    Args:
        script: `(request, prompt text) -> answer`, answers by name of the node, or answers in order
            of admission.
        clock: Clock of its event loop; tests use `agentrt.testing.LoopClock`.
        prefill_tokens_per_s: Speed of prompts.
        decode_tokens_per_s: Steps a second; every running request gets one token a step.
        codec: Spells prompts and answers; without one, prompts are messages and tokens are bytes.
        prompt: Kind of prompt in requests; None derives it from `codec`.
        max_running: Maximum number of requests in one step.
        seeds: Whether the script gives the same answer to the same request.
        hints: Whether to accept hints (they have no effect).
        kv_tokens: Reported capacity of the KV cache.
        host_kv_tokens: Reported capacity of the KV offload tier.
        resumes: Whether it goes on behind the output of an engine that was lost.
        spelling: Tokens without a codec; None takes one a byte.
        scores: Whether it scores choices.
        logprobs: Whether it reports log-probabilities.

    Attributes:
        seen: Record of all calls.
        pages: Reported free and evictable KV pages.
    """

    def __init__(
        self,
        script: Script | Answers,
        *,
        clock: Clock,
        prefill_tokens_per_s: float = math.inf,
        decode_tokens_per_s: float = math.inf,
        codec: Codec | None = None,
        prompt: Literal["tokens", "messages"] | None = None,
        max_running: int = 64,
        seeds: bool = False,
        hints: bool = False,
        kv_tokens: int = 0,
        host_kv_tokens: int = 0,
        resumes: bool = True,
        spelling: Spelling | None = None,
        scores: bool = True,
        logprobs: bool = True,
    ) -> None:
        self.seen = SeenByBackend()
        self.pages = (0, 0)
        self._clock = clock
        self._prefill_s = 1 / prefill_tokens_per_s
        self._decode_s = 1 / decode_tokens_per_s
        self._max_running = max_running
        self._spelling: Spelling = spelling or ByteSpelling()
        if codec is not None:
            self._spelling = CodecSpelling(codec)
        self._answers = script if isinstance(script, Answers) else Answers(script)
        self._replies: dict[RequestId, Reply] = {}
        self._answerer = Answerer(self._spelling, self._prefill_s, self._decode_s)
        self._timed = TimedAnswers(clock, self._is_ongoing, self._put_timed)
        takes = prompt or ("messages" if codec is None else "tokens")
        self.capabilities = Capabilities(
            backend="scripted",
            model="script",
            prompt=takes,
            codec=self._spelling.fingerprint,
            window_tokens=self._spelling.window_tokens,
            constraints=frozenset({"json", "regex", "choice", "grammar", "calls"}),
            holes=takes == "tokens",
            hints=hints,
            seeds=seeds,
            closes=True,
            kv_tokens=kv_tokens,
            host_kv_tokens=host_kv_tokens,
            slots=max_running,
            call_frame=self._spelling.call_frame,
            thinking=self._spelling.think_frame,
            cache_salts=True,  # it keeps no prefixes at all
            resumes=resumes,
            scores=scores,
            logprobs=logprobs,
        )
        self._ongoing: dict[RequestId, ScriptedRequest] = {}
        self._refused: list[End] = []
        self._queue = EventQueue()
        self._wake: asyncio.Event | None = None
        self._stepping: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        if self._stepping is None and not self._closed:
            self._wake = asyncio.Event()
            self._stepping = asyncio.create_task(self._step_forever())

    def submit(self, request: GenerateRequest) -> None:
        self.seen.requests.append(request)
        now_s = self._clock.now_s()
        ongoing = ScriptedRequest.of(request, self._ids_of(request), now_s)
        error = self._refusal(request)
        if error is None:
            self._ongoing[request.request_id] = ongoing
        else:
            self._refused.append(ongoing.end(failed(error), now_s))
        self._notify()

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self.seen.fills.append((request_id, fill))
        ongoing = self._ongoing.get(request_id)
        if ongoing is None or ongoing.complete:
            return
        ongoing.ledger["ahead_tokens"] = len(ongoing.prompt_ids)
        ongoing.prompt_ids += fill.token_ids
        if fill.constraint is not None:
            ongoing.request = replace(ongoing.request, constraint=fill.constraint)
        if fill.complete:
            ongoing.complete_at(self._clock.now_s())
        self._notify()

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        self.seen.updates.extend(updates)
        for info in updates:
            if info.request_id in self._ongoing:
                self._ongoing[info.request_id].demanded = info.demanded
                self._ongoing[info.request_id].deadline_at_s = info.deadline_at_s
                self._notify()

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self.seen.cancels[request_id] = reason
        if request_id in self._ongoing:
            self._ongoing[request_id].cancelled = True
            self._notify()

    def hint(self, hint: PrefixHint) -> None:
        self.seen.hints.append(hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        self.seen.prewarmed += constraints

    def count_tokens(self, text: str) -> int:
        """Number of tokens of a text, as `split` counts them."""
        return len(self._spelling.ids(text))

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    @property
    def ongoing(self) -> tuple[RequestId, ...]:
        """Requests between submit and end."""
        return tuple(self._ongoing)

    def lose_engine(
        self, *, restarting: bool = True, own_fault: bool = False, answers_anew: bool = False
    ) -> None:
        """Simulate the end of the engine's process: all requests in flight are lost.

        Args:
            restarting: Whether a new one follows.
            own_fault: Whether it ended by an error of its own.
            answers_anew: Whether the script is asked again for what it has answered.
        """
        if answers_anew:
            self._replies.clear()
        lost = tuple(self._ongoing)
        self._ongoing.clear()
        self._closed = not restarting
        error = EngineDied("the scripted engine was told to die")
        self._queue.put(BackendDown(record_of(error), lost, restarting, own_fault))
        self._notify()

    async def aclose(self) -> None:
        self._closed = True
        if self._stepping is not None:
            self._stepping.cancel()
            await asyncio.wait([self._stepping])
            self._stepping = None
        await self._timed.aclose()
        now_s = self._clock.now_s()
        ends = [*self._refused, *(one.end(CANCELLED, now_s) for one in self._ongoing.values())]
        self._refused = []
        self._ongoing.clear()
        self._deliver(None, [], ends)
        self._queue.close()

    async def _step_forever(self) -> None:
        while True:
            self._deliver(None, *self._expire(self._clock.now_s()))
            batch = self._admit()
            if batch:
                await self._step(batch)
            elif not self._refused:
                await self._idle()

    async def _step(self, batch: list[ScriptedRequest]) -> None:
        """Compute one step: the prompts of new requests, then one token each."""
        started_at_s = self._clock.now_s()
        new = [one for one in batch if "steps" not in one.ledger]
        prefill_tokens = sum(len(one.prompt_ids) for one in new)
        await anyio.sleep(prefill_tokens * self._prefill_s + self._decode_s)
        now_s = self._clock.now_s()
        alive = [one for one in batch if self._ongoing.get(one.request.request_id) is one]
        if not alive:
            return  # lost with the engine
        deltas: list[Delta] = []
        for one in alive:
            one.account_step(now_s, len(batch))
            if not one.cancelled and (delta := one.next_delta(now_s)) is not None:
                deltas.append(delta)
        ends: list[End] = []
        for one in alive:
            if one.done and not one.cancelled and one.answer is not None:
                del self._ongoing[one.request.request_id]
                ends.append(one.end(one.answer, now_s))
        step = StepRecord(
            index=len(self.seen.steps),
            started_at_s=started_at_s,
            ended_at_s=now_s,
            prefill_tokens=prefill_tokens,
            decode_tokens=len(deltas),
            requests=tuple(one.request.request_id for one in batch),
        )
        self.seen.steps.append(step)
        self._deliver(step, deltas, ends)

    def _admit(self) -> list[ScriptedRequest]:
        """Batch of the next step: demanded requests first, then by order of arrival."""
        waiting = [one for one in self._ongoing.values() if one.complete and one.answer is None]
        waiting.sort(key=lambda one: not one.demanded)
        running = [one for one in self._ongoing.values() if one.answer is not None]
        for one in waiting[: self._max_running - len(running)]:
            reply = self._reply(one)
            answer = self._answerer.answer(one.request, reply, len(one.prompt_ids))
            if answer.error is not None and reply.error is None:
                self.seen.problems.append(revive(answer.error))
            one.admit(answer, self._clock.now_s())
            if answer.timed is not None:
                self._timed.start(one, answer.timed)
            running.append(one)
        return [one for one in running if one.answer is not None and one.answer.timed is None]

    def _is_ongoing(self, one: ScriptedRequest) -> bool:
        return self._ongoing.get(one.request.request_id) is one and not one.cancelled

    def _put_timed(self, one: ScriptedRequest, deltas: list[Delta], end: End | None) -> None:
        """Deliver what a timed answer gives at one instant."""
        if end is not None:
            del self._ongoing[one.request.request_id]
            self._notify()  # its place is free
        self._deliver(None, deltas, [end] if end is not None else [])

    def _reply(self, one: ScriptedRequest) -> Reply:
        """The script's reply to a complete prompt."""
        prompt_tokens, window_tokens = len(one.prompt_ids), self.capabilities.window_tokens
        if window_tokens and prompt_tokens >= window_tokens:
            what = f"the prompt of {prompt_tokens} tokens does not fit {window_tokens} tokens"
            return Reply(error=ContextOverflow(what, hint="Shorten the prompt"))
        prompt = self._prompt_text(one)
        self.seen.prompts[one.request.request_id] = prompt
        request_id = one.request.request_id
        try:
            if request_id not in self._replies:
                self._replies[request_id] = self._answers.reply(one.request, prompt)
        except AgentrtError as error:
            self.seen.problems.append(error)
            return Reply(error=error)
        return self._replies[request_id]

    def _expire(self, now_s: float) -> tuple[list[Delta], list[End]]:
        """Ends between steps: requests refused, aborted, or closed for their deadline."""
        deltas: list[Delta] = []
        ends, self._refused = self._refused, []
        for request_id, one in list(self._ongoing.items()):
            if one.cancelled:
                del self._ongoing[request_id]
                ends.append(one.end(CANCELLED, now_s))
            elif (close_at_s := self._close_at_s(one)) is not None and now_s >= close_at_s:
                del self._ongoing[request_id]
                more, end = self._close(one, now_s)
                deltas += more
                ends.append(end)
        return deltas, ends

    def _close_at_s(self, one: ScriptedRequest) -> float | None:
        """Instant of closing for the deadline; None with "raise", which the runtime handles."""
        if one.deadline_at_s is None or one.request.on_limit != "close" or not one.complete:
            return None
        return one.deadline_at_s - DEADLINE_STEPS * self._decode_s

    def _close(self, one: ScriptedRequest, now_s: float) -> tuple[list[Delta], End]:
        try:
            timed = one.answer.timed if one.answer is not None else None
            is_recorded = timed is not None and timed.tokens is not None
            written = self._spelling.ids(one.text) if is_recorded else one.written
            rest = self._answerer.close(one.request, written)
        except AgentrtError as error:
            return [], one.end(failed(error), now_s)
        return one.close_with(rest, now_s)

    async def _idle(self) -> None:
        """Wait until something changes or a deadline passes."""
        assert self._wake is not None
        close_at_s = [
            at_s for one in self._ongoing.values() if (at_s := self._close_at_s(one)) is not None
        ]
        wait_s = min(close_at_s) - self._clock.now_s() if close_at_s else math.inf
        with anyio.move_on_after(wait_s):
            await self._wake.wait()
        self._wake.clear()

    def _refusal(self, request: GenerateRequest) -> AgentrtError | None:
        if self._closed:
            return EngineUnavailable("the scripted engine is gone")
        takes = "messages" if isinstance(request.prompt, MessagePrompt) else "tokens"
        if takes != self.capabilities.prompt:
            return Unsupported(f"this engine takes {self.capabilities.prompt}, not {takes}")
        return None

    def _ids_of(self, request: GenerateRequest) -> tuple[int, ...]:
        if isinstance(request.prompt, TokenPrompt):
            return request.prompt.token_ids
        return self._spelling.ids(prompt_text(request.prompt.segments))

    def _prompt_text(self, one: ScriptedRequest) -> str:
        if isinstance(one.request.prompt, MessagePrompt):
            return prompt_text(one.request.prompt.segments)
        return "".join(self._spelling.pieces(one.prompt_ids, keep_special=True))

    def _deliver(self, step: StepRecord | None, deltas: list[Delta], ends: list[End]) -> None:
        if step is not None or deltas or ends:
            self._queue.put(StepDone(step, tuple(deltas), tuple(ends), *self.pages))

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
