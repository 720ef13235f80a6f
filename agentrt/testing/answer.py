"""Answers of a scripted engine: from a script's text to the tokens of a real engine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import (
    AgentrtError,
    ConstraintError,
    ErrorRecord,
    RequestRejected,
    record_of,
)
from agentrt.base.ids import RequestId
from agentrt.base.record import record
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.step_output import FinishReason, OptionScore, TokenLogprob
from agentrt.testing.misfit import misfit
from agentrt.testing.script import Reply, option_text, texts_of
from agentrt.testing.spelling import Spelling
from agentrt.testing.timed_output import TimedOutput, spread

if TYPE_CHECKING:
    from agentrt.structured import CompiledConstraint


@record
class ScriptedAnswer:
    """Output of one request, decided when it starts.

    Attributes:
        token_ids: Ids without end token.
        pieces: Text added by each token.
        reason: Finish reason.
        closed_early: Whether it was closed before the script's end.
        error: Error of a failed answer.
        stopped_by: The stop string that ended it, or "".
        logprobs: One entry a token, if they were asked for.
        scores: One score an option of a scored choice.
        timed: The same with times of its own; None if the engine's steps decide.
    """

    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    reason: FinishReason
    closed_early: bool = False
    error: ErrorRecord | None = None
    stopped_by: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    scores: tuple[OptionScore, ...] = ()
    timed: TimedOutput | None = None


LIKELY = 0.9
"""Probability of the option that a script answers, if it gives none."""

CANCELLED = ScriptedAnswer((), (), "cancelled")


def failed(error: AgentrtError) -> ScriptedAnswer:
    """The answer of a request that fails without output."""
    return ScriptedAnswer((), (), "failed", error=record_of(error))


class Answerer:
    """Makes answers obey their requests, as a real engine's do.

    Args:
        spelling: Tokens of the engine.
        prefill_s: Time of a prompt token at the engine's speed.
        decode_s: Time of an output token at that speed.
    """

    def __init__(self, spelling: Spelling, prefill_s: float = 0.0, decode_s: float = 0.0) -> None:
        self._spelling = spelling
        self._prefill_s = prefill_s
        self._decode_s = decode_s
        self._compiled: dict[str, CompiledConstraint] = {}
        self._thoughts: dict[RequestId, tuple[int, ...]] = {}

    def answer(
        self, request: GenerateRequest, reply: Reply, prompt_tokens: int = 0
    ) -> ScriptedAnswer:
        """The script's reply within the request's stop strings, limit and constraint."""
        if reply.output is not None:
            return _recorded(reply.output, reply.error)
        try:
            answer = self._thoughtful(request, reply)
            if request.sampling.logprobs:
                answer = replace(answer, logprobs=_logprobs(request, reply, answer.token_ids))
            if request.scored:
                answer = replace(answer, scores=self._scores(request, reply))
        except AgentrtError as error:
            return failed(error)
        times = reply.times(self._prefill_s * prompt_tokens, self._decode_s, len(answer.token_ids))
        if times is None:
            return answer
        parts = spread(answer.pieces, answer.token_ids, answer.logprobs, times)
        return replace(answer, timed=TimedOutput(parts, times, answer.reason))

    def _thoughtful(self, request: GenerateRequest, reply: Reply) -> ScriptedAnswer:
        """The reply behind its reasoning."""
        if request.thinking_tokens is None:
            return self._answer(request, reply)
        thought = self._thought(request.thinking_tokens, reply)
        left_tokens = request.sampling.max_tokens - len(thought)
        if left_tokens < 1:
            raise ConstraintError(
                f"the thought of {request.node_id} takes {len(thought)} tokens, max_tokens is "
                f"{request.sampling.max_tokens}",
                hint="Raise max_tokens",
            )
        self._thoughts[request.request_id] = thought
        sampling = replace(request.sampling, max_tokens=left_tokens)
        answer = self._answer(replace(request, sampling=sampling), reply)
        pieces = self._spelling.pieces(thought, keep_special=True)
        return replace(
            answer, token_ids=thought + answer.token_ids, pieces=(*pieces, *answer.pieces)
        )

    def _thought(self, max_tokens: int, reply: Reply) -> tuple[int, ...]:
        """Ids of the reasoning before the answer, frame included, within the budget."""
        frame, ids = self._spelling.think_frame, self._spelling.ids
        opening = () if frame.opened else ids(frame.opening)
        return (*opening, *ids(reply.thinking)[:max_tokens], *ids(frame.closing))

    def _answer(self, request: GenerateRequest, reply: Reply) -> ScriptedAnswer:
        if request.scored and reply.scores and reply.text == "":
            reply = replace(reply, text=max(reply.scores, key=reply.scores.__getitem__))
        texts = texts_of(reply, request, self._spelling.call_frame)
        text, stop = _until_stop(self._fitting(request, texts), request.sampling.stop)
        ids = self._spelling.ids(text)
        if reply.error is not None:
            answer = self._tokenized(request, ids, "failed")
            return replace(answer, error=record_of(reply.error))
        try:
            answer = self._obey(request, reply, ids, stopped=bool(stop))
        except AgentrtError as error:
            return failed(error)
        if request.sampling.ignore_eos and answer.reason == "stop" and not stop:
            return failed(_too_short(request, answer))
        if not stop or answer.reason != "stop":
            return answer
        pieces = _without_tail(answer.pieces, len(stop))
        return replace(answer, pieces=pieces, stopped_by=stop)

    def _fitting(self, request: GenerateRequest, texts: list[str]) -> str:
        """The first text that the constraint accepts whole; the first of all if none is."""
        if len(texts) == 1 or request.constraint is None:
            return texts[0]
        compiled = self._compile(request.constraint)
        for text in texts:
            state, ids = compiled.start(), self._spelling.ids(text)
            if state.advance(ids) == len(ids) and state.can_stop():
                return text
        return texts[0]

    def _scores(self, request: GenerateRequest, reply: Reply) -> tuple[OptionScore, ...]:
        """Scores of the options of a scored choice."""
        assert request.constraint is not None
        options = request.constraint.options
        given = {option_text(option): one for option, one in (reply.scores or {}).items()}
        if unknown := given.keys() - set(options):
            raise RequestRejected(
                f"the script scores {min(unknown)!r} for {request.node_id}",
                hint=_options(request.constraint),
            )
        if not given:
            rest = (1 - LIKELY) / max(1, len(options) - 1)
            given = dict.fromkeys(options, rest) | {option_text(reply.text): LIKELY}
        return tuple(
            OptionScore(
                math.log(max(given.get(option, 0.0), _LEAST)), len(self._spelling.ids(option)) + 1
            )
            for option in options
        )

    def close(self, request: GenerateRequest, written: tuple[int, ...]) -> ScriptedAnswer:
        """The shortest valid end after the tokens `written`; only the tokens to add."""
        thought = self._thoughts.get(request.request_id, ())
        if thought:
            rest, written = thought[len(written) :], written[len(thought) :]
            ended = self._close(request, written)
            pieces = self._spelling.pieces(rest, keep_special=True)
            return replace(ended, token_ids=rest + ended.token_ids, pieces=(*pieces, *ended.pieces))
        return self._close(request, written)

    def _close(self, request: GenerateRequest, written: tuple[int, ...]) -> ScriptedAnswer:
        if request.constraint is None:
            return ScriptedAnswer((), (), "length", closed_early=True)
        state = self._compile(request.constraint).start()
        state.advance(written)
        end = state.completion(request.sampling.max_tokens)
        if end is None:
            raise RequestRejected(f"no valid end was found for {request.node_id}")
        spelt = self._tokenized(request, (*written, *end), "length", closed_early=True)
        before = len(written)
        return replace(spelt, token_ids=spelt.token_ids[before:], pieces=spelt.pieces[before:])

    def _obey(
        self, request: GenerateRequest, reply: Reply, ids: tuple[int, ...], *, stopped: bool
    ) -> ScriptedAnswer:
        limit, closes = request.sampling.max_tokens, request.on_limit == "close"
        if request.constraint is not None:
            compiled = self._compile(request.constraint)
            if len(ids) > limit and closes:
                kept = _closed_within(compiled, ids, limit, request)
                return self._tokenized(request, kept, "length", closed_early=True)
            partial = stopped or len(ids) > limit
            self._check(compiled, ids, request, reply, partial=partial)
        if len(ids) > limit:
            return self._tokenized(request, ids[:limit], "length", closed_early=closes)
        return self._tokenized(request, ids, "stop")

    def _check(
        self,
        compiled: CompiledConstraint,
        ids: tuple[int, ...],
        request: GenerateRequest,
        reply: Reply,
        *,
        partial: bool,
    ) -> None:
        """Refuse an answer that violates its constraint: no engine could give it."""
        state = compiled.start()
        taken = state.advance(ids)
        if taken == len(ids) and (partial or state.can_stop()):
            return
        written = "".join(self._spelling.pieces(ids[:taken], keep_special=True))
        rest = "".join(self._spelling.pieces(ids[taken:], keep_special=True))
        what = f"goes wrong at {rest[:40]!r}" if rest else "is not whole"
        problem = f"the script's answer to {request.node_id} {what} after {written[-60:]!r}"
        assert request.constraint is not None
        hint = misfit(reply.calls, request.constraint.tools) or _options(request.constraint)
        raise RequestRejected(problem, hint=hint or _ALLOWED)

    def _tokenized(
        self,
        request: GenerateRequest,
        ids: tuple[int, ...],
        reason: FinishReason,
        *,
        closed_early: bool = False,
    ) -> ScriptedAnswer:
        pieces = self._spelling.pieces(ids, keep_special=request.keep_special)
        return ScriptedAnswer(ids, tuple(pieces), reason, closed_early)

    def _compile(self, spec: ConstraintSpec) -> CompiledConstraint:
        from agentrt.structured import compile_constraint  # native libraries, used by few tests

        key = repr(spec)
        if key not in self._compiled:
            spelling = self._spelling
            self._compiled[key] = compile_constraint(spec, spelling.vocab, spelling.call_frame)
        return self._compiled[key]


_ALLOWED = (
    "Let the script answer what the type allows: keys in the type's order, and tool calls "
    "as call(name, ...)"
)

_MOST_OPTIONS = 20
"""Options that an error lists."""

_LEAST = 1e-12
"""Probability of an option that a script gives none, since its logarithm has to be finite."""


def _options(spec: ConstraintSpec) -> str:
    """The options of a choice, as a hint; "" for other constraints."""
    if spec.kind != "choice":
        return ""
    shown = ", ".join(map(repr, spec.options[:_MOST_OPTIONS]))
    more = ", ..." if len(spec.options) > _MOST_OPTIONS else ""
    return f"The options are {shown}{more}"


def _recorded(output: TimedOutput, error: Exception | None) -> ScriptedAnswer:
    """A recorded output, as it was."""
    ids = tuple(one for part in output.parts for one in part.token_ids or (0,) * part.tokens)
    pieces = tuple(part.text for part in output.parts)
    return ScriptedAnswer(
        ids,
        pieces,
        output.reason,
        output.closed_early,
        None if error is None else record_of(error),
        output.stopped_by,
        scores=output.scores,
        timed=output,
    )


def _logprobs(
    request: GenerateRequest, reply: Reply, token_ids: tuple[int, ...]
) -> tuple[TokenLogprob, ...]:
    """Log-probabilities of the tokens."""
    given = reply.logprobs
    values = [given] * len(token_ids) if isinstance(given, float | int) else list(given)
    if len(values) != len(token_ids):
        raise RequestRejected(
            f"the script gives {len(values)} logprobs for the {len(token_ids)} tokens of "
            f"{request.node_id}",
            hint="Give one a token, or one number for all of them",
        )
    return tuple(
        TokenLogprob(token_id, value, ((token_id, value),))
        for token_id, value in zip(token_ids, values, strict=True)
    )


def _until_stop(text: str, stop: tuple[str, ...]) -> tuple[str, str]:
    """`text` up to the end of the first stop string in it, and that stop string."""
    found = [(at, word) for word in stop if (at := text.find(word)) >= 0]
    if not found:
        return text, ""
    at, word = min(found)
    return text[: at + len(word)], word


def _without_tail(pieces: tuple[str, ...], chars: int) -> tuple[str, ...]:
    """Pieces with `chars` fewer characters at the end; the tokens stay."""
    left = sum(map(len, pieces)) - chars
    kept: list[str] = []
    for piece in pieces:
        kept.append(piece[:left])
        left = max(0, left - len(piece))
    return tuple(kept)


def _closed_within(
    compiled: CompiledConstraint, ids: tuple[int, ...], limit: int, request: GenerateRequest
) -> tuple[int, ...]:
    """The longest start of `ids` that can still be closed within `limit` tokens, closed."""
    state, best = compiled.start(), None
    for count in range(limit + 1):
        end = state.completion(limit - count)
        if end is not None and count + len(end) <= limit:
            best = (*ids[:count], *end)
        if count == limit or not state.advance(ids[count : count + 1]):
            break
    if best is None:
        raise RequestRejected(
            f"the output of {request.node_id} needs more than max_tokens={limit}",
            hint="Raise max_tokens",
        )
    return best


def _too_short(request: GenerateRequest, answer: ScriptedAnswer) -> RequestRejected:
    """The error of an answer that is shorter than `ignore_eos` requires."""
    return RequestRejected(
        f"the script of {request.node_id} ends after {len(answer.token_ids)} of "
        f"{request.sampling.max_tokens} tokens, and ignore_eos wants them all",
        hint="Script a longer answer",
    )
