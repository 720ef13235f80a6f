"""Prefill ahead: while a program waits, the prompt that is likely next is computed. Off by default.

What a program waits for shows what it writes next: past runs wrote a prompt there, of texts that
the program writes every time and of values of its run. As far as these are known, the engine
computes that prompt, in steps that compute nothing else and in free pages. Nothing is generated,
and the program sees nothing of it: the prompt that it writes finds its beginning in the KV cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Hole, Open, Segment, Text
from agentrt.program import Gen, Node, ProgramWork
from agentrt.program.node import when_done
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.prompt.encoded import shared_length
from agentrt.prompt.large_text import LARGE_CHARACTERS
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.events import Scheduled
from agentrt.protocol.step_output import End
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.run import Run
from agentrt.runtime.tasks.run_history import (
    MOST_PENDING,
    PendingGuess,
    PromptForm,
    RunHistory,
    ScopeHistory,
    SeenTexts,
    node_site,
)
from agentrt.scheduler import InternalEvent
from agentrt.scheduler.estimates.prompt_model import PromptGuess
from agentrt.scheduler.estimates.prompt_patterns import PromptPatterns, is_likely
from agentrt.scheduler.runs.run import template_of

MOST_REQUESTS = 4
"""Prompts of one program body that are computed ahead of its next generation, at most."""
MOST_WASTED_TOKENS = 2048
"""A run computes nothing ahead once it has wasted so many tokens more than it has used."""
MOST_PROGRAMS = 256


@dataclass(slots=True, eq=False)
class AheadRequest:
    """A prompt that is computed ahead.

    Attributes:
        run_id: The run.
        node_id: The call that the program waits for.
        engine: Engine that computes it.
        token_ids: The beginning of the prompt.
        cache_salt: Salt of the run.
        end: End of the request, or None.
        shared_tokens: Tokens that the prompt that came has in common with it; None until one came.
    """

    run_id: RunId
    node_id: NodeId
    engine: ModelRole
    token_ids: tuple[int, ...]
    cache_salt: str
    end: End | None = None
    shared_tokens: int | None = None


@dataclass(slots=True, eq=False)
class _AheadOfRun:
    """Prompts that are computed ahead for one run.

    Attributes:
        run_id: The run.
        history: Prompts and values of the run.
        requests: Requests since the last generation of each program body.
        sent: Generations that were noted; one may be sent again.
        spent_tokens: Tokens that were wasted less those that were used.
    """

    run_id: RunId
    history: RunHistory
    requests: dict[NodeId | None, list[RequestId]] = field(default_factory=dict)
    sent: set[NodeId] = field(default_factory=set)
    spent_tokens: int = 0


class PrefillAhead:
    """Learns which prompts follow, and lets engines compute likely ones ahead.

    Args:
        post: Takes events that report what was done.
        clock: Clock of the runtime.
        engines: Engines by role.
        patterns: Prompts learned so far; they go on learning.
        is_on: Whether prompts are computed ahead.

    Attributes:
        is_on: Whether an engine computes prompts ahead.
    """

    def __init__(
        self,
        post: Callable[[InternalEvent], None],
        clock: Clock,
        engines: Mapping[str, ModelRole],
        patterns: PromptPatterns,
        *,
        is_on: bool,
    ) -> None:
        self._post = post
        self._clock = clock
        self._engines = {
            role: engine
            for role, engine in engines.items()
            if is_on and engine.capabilities.prefills_ahead and engine.codec is not None
        }
        self.is_on = bool(self._engines)
        self._patterns = patterns
        self._numbers = count(-1, -1)  # generations have the others
        self._runs: dict[RunId, _AheadOfRun] = {}
        self._requests: dict[RequestId, AheadRequest] = {}
        self._due: dict[tuple[RunId, NodeId | None], tuple[Run, Node[Any], PromptGuess]] = {}
        self._texts: dict[str, SeenTexts] = {}
        self._forms: dict[tuple[str, str], PromptForm] = {}

    def note_start(self, run: Run, node: Node[Any]) -> None:
        """Note that a tool, a question or a program begins."""
        ahead = self._ahead_of(run)
        if isinstance(node.work, ProgramWork):
            when_done(node, partial(self._end_scope, run))
            return
        ahead.history.scope(node.scope.owner).begin_call(node_site(node))
        self._note_wait(run, node, "begins")
        when_done(node, partial(self._note_end, run))

    def note_sent(self, run: Run, gen: Gen[Any], request: InFlight) -> None:
        """Note that a generation was sent: whether it was expected, and what may follow it."""
        ahead = self._ahead_of(run)
        if gen.id in ahead.sent:
            return
        ahead.sent.add(gen.id)
        history, owner = ahead.history, gen.scope.owner
        scope, chat = history.scope(owner), gen.work.chat
        output = gen.work.output
        constraint = output.constraint if output.late is None else None
        form = PromptForm(gen.work.model, chat.tools, chat.history, constraint)
        self._learn(scope, node_site(gen), tuple(prompt_segments(chat)), form)
        self._settle(ahead, owner, request)
        self._forms[history.program, node_site(gen)] = form
        history.note_prompt(gen, form)
        scope.begin_call(node_site(gen))
        self._note_wait(run, gen, "begins")
        when_done(gen, partial(self._note_end, run))

    def send_due(self) -> None:
        """Send the prompts that are expected: once a turn, after everything else was decided."""
        due, self._due = self._due, {}
        for (_, owner), (run, node, guess) in due.items():
            if run.run_id in self._runs and run.nodes:
                self._send(run, owner, node, guess)

    def note_ends(self, ends: Iterable[End]) -> None:
        """Note which requests have ended."""
        for end in ends:
            request = self._requests.get(end.request_id)
            if request is not None:
                request.end = end
                self._report_if_over(end.request_id, request)

    def forget_lost(self, lost: Iterable[RequestId], *, own_fault: bool) -> None:
        """Forget requests that were lost with their engine.

        If one of them may have ended it, nothing is computed ahead any more: no request may be
        blamed for a guess.
        """
        for request_id in lost:
            if self._requests.pop(request_id, None) is not None and own_fault:
                self.is_on = False

    def forget_run(self, run_id: RunId) -> None:
        """Report what was computed for a run in vain."""
        ahead = self._runs.get(run_id)
        if ahead is None:
            return
        for owner, scope in ahead.history.scopes.items():
            self._learn(scope)
            self._settle(ahead, owner, None)
        for request_id, request in list(self._requests.items()):
            if request.run_id == run_id:
                self._report(request_id, request)
        del self._runs[run_id]

    def _ahead_of(self, run: Run) -> _AheadOfRun:
        found = self._runs.get(run.run_id)
        if found is None:
            program, fn, arguments = "", None, dict[str, Any]()
            if run.root is not None and isinstance(work := run.root.work, ProgramWork):
                program, fn = template_of(run.root.name, work.source), work.fn
                arguments = dict(work.arguments)
            texts = self._texts.pop(program, None) or SeenTexts(fn)
            if len(self._texts) >= MOST_PROGRAMS:
                del self._texts[next(iter(self._texts))]
            self._texts[program] = texts
            history = RunHistory(program, texts, arguments)
            found = self._runs[run.run_id] = _AheadOfRun(run.run_id, history)
        return found

    def _note_end(self, run: Run, node: Node[Any]) -> None:
        if run.run_id in self._runs and node.error is None:
            self._runs[run.run_id].history.note_end(node)
            self._note_wait(run, node, "ended")

    def _end_scope(self, run: Run, node: Node[Any]) -> None:
        """A program has ended: it writes no more prompts."""
        ahead = self._runs.get(run.run_id)
        if ahead is not None and (scope := ahead.history.scopes.pop(node.id, None)) is not None:
            self._learn(scope)
            self._settle(ahead, node.id, None)

    def _note_wait(self, run: Run, node: Node[Any], phase: str) -> None:
        """Guess what the program writes next, now that a call of it begins or has ended."""
        history, owner = self._ahead_of(run).history, node.scope.owner
        scope = history.scope(owner)
        if len(scope.pending) >= MOST_PENDING:
            return
        context = scope.context(history.program, node_site(node), phase)
        known = history.known()
        guess = self._patterns.guess(context, known)
        scope.pending.append(PendingGuess(context, known, guess))
        self._due.pop((run.run_id, owner), None)
        if guess is not None and is_likely(guess):
            self._due[run.run_id, owner] = (run, node, guess)

    def _learn(
        self,
        scope: ScopeHistory,
        site: str = "",
        segments: tuple[Segment, ...] = (),
        form: PromptForm | None = None,
    ) -> None:
        """Learn from the prompt that came, or that none came."""
        plain = None if form is None or form.tools else (form.role, form.history)
        for one in scope.pending:
            self._patterns.learn(one.context, site, segments, one.known, one.guess, plain)
        scope.pending.clear()

    def _settle(self, ahead: _AheadOfRun, owner: NodeId | None, sent: InFlight | None) -> None:
        """Compare what was expected with the prompt that came, or with none."""
        for request_id in ahead.requests.pop(owner, ()):
            request = self._requests.get(request_id)
            if request is None:
                continue
            request.shared_tokens = 0
            if sent is not None and sent.engine is request.engine:
                request.shared_tokens = shared_length(request.token_ids, sent.prompt_ids)
            if request.end is None:
                request.engine.backend.cancel(request_id, "the next prompt has come")
            self._report_if_over(request_id, request)
        self._due.pop((ahead.run_id, owner), None)

    def _send(self, run: Run, owner: NodeId | None, node: Node[Any], guess: PromptGuess) -> None:
        ahead = self._runs[run.run_id]
        form = self._forms.get((ahead.history.program, guess.site))
        if form is None and guess.form is not None:  # learned by another process
            form = PromptForm(guess.form[0], (), guess.form[1], None)
        form = form or ahead.history.form_of(guess.base_site)
        engine = self._engines.get(form.role) if form is not None else None
        sent = ahead.requests.setdefault(owner, [])
        if form is None or engine is None or ahead.spent_tokens > MOST_WASTED_TOKENS:
            return
        if form.constraint is not None:
            engine.prewarm((form.constraint,))
        token_ids = self._token_ids(run, engine, form, guess)
        known = [one.token_ids for one in map(self._requests.get, sent) if one is not None]
        if not token_ids or token_ids in known or len(sent) >= MOST_REQUESTS:
            return
        request_id = RequestId(next(self._numbers))
        salt = run.options.cache_salt
        self._requests[request_id] = AheadRequest(run.run_id, node.id, engine, token_ids, salt)
        sent.append(request_id)
        engine.backend.submit(
            GenerateRequest(
                request_id,
                run.run_id,
                node.id,
                guess.site,
                TokenPrompt(token_ids, complete=False),
                SamplingParams(max_tokens=1),
                demanded=False,
                submitted_at_s=run.now_s(),
                cache_salt=salt,
                ahead=True,
                traceparent=run.spans.program_traceparent(node),
                adapter=engine.adapter,
            )
        )
        self._tell(
            run.run_id,
            node.id,
            f"the prompt of {guess.site} is likely next",
            ("expected_tokens", float(len(token_ids))),
            ("probability", guess.probability),
            ("trials", float(guess.trials)),
        )

    def _token_ids(
        self, run: Run, engine: ModelRole, form: PromptForm, guess: PromptGuess
    ) -> tuple[int, ...]:
        """Ids of the beginning of a prompt, which stay whatever follows; () if it has no text."""
        segments = list(guess.segments)
        if not any(isinstance(one, Text) for one in segments[guess.base_segments :]):
            return ()  # the engine has that much of it
        if any(isinstance(one, Text) and len(one.text) > LARGE_CHARACTERS for one in segments):
            return ()  # it would be encoded in this thread
        if not guess.complete:
            last = segments[-1]
            by_model = isinstance(last, Open) and last.role == "assistant"
            segments.append(Hole("", generated=by_model))
        assert engine.codec is not None
        try:
            encoded = engine.codec.encode(
                form.tools, segments, form.history, run.options.cache_salt
            )
        except AgentrtError:
            return ()
        token_ids = encoded.token_ids
        window = engine.window_tokens
        return token_ids if not window or len(token_ids) < window else ()

    def _report_if_over(self, request_id: RequestId, request: AheadRequest) -> None:
        if request.end is not None and request.shared_tokens is not None:
            self._report(request_id, request)

    def _report(self, request_id: RequestId, request: AheadRequest) -> None:
        """Report the tokens that were used, and those that were computed in vain."""
        del self._requests[request_id]
        begin, end = 0, len(request.token_ids)  # the most it may be, if its engine has not told
        if request.end is not None:
            ledger = request.end.ledger
            begin, end = ledger.cached_tokens, max(ledger.cached_tokens, ledger.prompt_tokens)
        used = max(0, min(request.shared_tokens or 0, end) - begin)
        wasted = end - begin - used
        if (ahead := self._runs.get(request.run_id)) is not None:
            ahead.spent_tokens += wasted - used
        if used or wasted:
            self._tell(
                request.run_id,
                request.node_id,
                "a prompt was computed ahead" + ("" if used else " in vain"),
                ("used_tokens", float(used)),
                ("wasted_tokens", float(wasted)),
            )

    def _tell(self, run_id: RunId, node_id: NodeId, reason: str, *terms: tuple[str, float]) -> None:
        now_s = self._clock.now_s()
        self._post(Scheduled(run_id, node_id, now_s, "speculated", reason, terms=terms))
