"""Effects of new tokens on a sequence: text, forced runs, stop strings, its end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from agentrt.base.errors import ConstraintError, ErrorRecord, InternalError
from agentrt.base.ids import RequestId
from agentrt.engine.sampling.sampler import SampledToken
from agentrt.engine.sequence.draft import Verification
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.engine.sequence.sequence import NewOutput, Sequence
from agentrt.prompt.stop_strings import StoppedText
from agentrt.protocol.step_output import Delta, FinishReason, OptionScore, TokenLogprob
from agentrt.structured.closing.budget import EndSearch

_BUSY_S = 0.25
"""Longest wait for a mask that keeps the grammar of an output busy."""

Redraw = Callable[[int], SampledToken]
"""Forbids a token and samples again."""


AwaitSearch = Callable[[EndSearch], bool]
"""Waits for a search; False if it takes longer than the step may wait for its row."""


class Postponed(Enum):
    """No token yet: an end is still being searched, so the row skips this step."""

    SEARCHING = "searching"


POSTPONED = Postponed.SEARCHING


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a sequence is finished.

    Attributes:
        reason: Reason reported in the `End`.
        closed_early: The output was closed by its shortest valid completion.
        stopped_by: Stop string that ended it, or "".
        error: Set if it failed.
        scores: Scores of the options, if they were scored.
    """

    reason: FinishReason
    closed_early: bool = False
    stopped_by: str = ""
    error: ErrorRecord | None = None
    scores: tuple[OptionScore, ...] = ()


@dataclass(slots=True, eq=False)
class SampledStep:
    """Result of sampling a step.

    Attributes:
        finishes: Sequences that are finished.
        masks_s: Seconds that each sequence's mask took.
        verified: Drafts that were computed in the step.
    """

    finishes: list[tuple[Sequence, Finish]] = field(default_factory=list)
    masks_s: dict[RequestId, float] = field(default_factory=dict)
    verified: list[Verification] = field(default_factory=list)


def append_token(
    sequence: Sequence,
    sampled: SampledToken,
    redraw: Redraw,
    eos_ids: frozenset[int],
    await_search: AwaitSearch,
) -> Finish | Postponed | None:
    """Append a sampled token, and the tokens that its grammar forces behind it.

    Args:
        sequence: The sequence.
        sampled: The token.
        redraw: Samples another token if this one would leave no room to close the output.
        eos_ids: Tokens that end an output.
        await_search: Waits for the search of an end that must be known first.
    """
    max_tokens = sequence.max_output_tokens
    is_reasoning = sequence.is_reasoning  # the mark that ends reasoning may be an end token too
    accepted = _accept(sequence, sampled, redraw, await_search)
    if isinstance(accepted, Postponed):
        return accepted
    sampled = accepted
    if not is_reasoning and sampled.token_id in eos_ids:
        return Finish("stop")
    finish = _append_certain(
        sequence, [sampled.token_id], [sampled.logprob] if sampled.logprob else []
    )
    if finish or sequence.grammar is None:
        return finish or _length_limit(sequence, max_tokens)
    return append_forced_run(sequence, max_tokens)


def choose_option(sequence: Sequence) -> Finish | None:
    """Append the likeliest option, or one sampled at a temperature; None if some have no score yet.

    The sample is from the probabilities of whole options, to the power of `1 / temperature`.
    """
    options, params = sequence.options, sequence.request.sampling
    if options is None or options.unscored:
        return None
    scores = tuple(options.scores[at] for at in range(len(options.token_ids)))
    logprobs = [score.logprob for score in scores]
    chosen = max(range(len(logprobs)), key=logprobs.__getitem__)
    if params.temperature > 0:
        weights = [math.exp((one - logprobs[chosen]) / params.temperature) for one in logprobs]
        chosen = random.Random(params.seed).choices(range(len(logprobs)), weights)[0]
    _append_certain(sequence, options.token_ids[chosen], [])
    return Finish("stop", scores=scores)


def close_output(sequence: Sequence) -> Finish:
    """Append the shortest completion of the output, without a forward.

    Raises:
        ConstraintError: A mask of the output keeps its grammar busy.
    """
    grammar = sequence.grammar
    if grammar is not None and (mask := grammar.mask_place.under_way) is not None:
        if not mask.wait(_BUSY_S):
            raise ConstraintError(
                "the output cannot be closed while a mask of its grammar takes so long",
                hint="Make the grammar less ambiguous, or the deadline later",
            )
        grammar.mask_place.under_way = None
    if grammar is not None and not grammar.can_stop:
        finish = _append_forced(sequence, grammar.close())
        if finish:
            return finish
    return Finish("length", closed_early=True)


def append_forced_run(sequence: Sequence, max_tokens: int) -> Finish | None:
    """Append the tokens that the grammar forces next, and draft those behind them.

    Tokens forced before the first sample join the last chunk of the prompt.
    """
    grammar = sequence.grammar
    if grammar is None:
        return None
    finish = _append_forced(sequence, grammar.forced_tokens(max_tokens - sequence.output_tokens))
    if finish or grammar.must_stop:
        return finish or Finish("stop")
    if grammar.must_close:
        return close_output(sequence)
    sequence.forced_draft = grammar.draft_tokens(max_tokens - sequence.output_tokens - 1)
    return _length_limit(sequence, max_tokens)


def resume_output(sequence: Sequence) -> Finish | None:
    """Append the output that the request had at a lost engine; it is not reported again.

    Its KV is computed with the prompt's last chunk.

    Raises:
        InternalError: The constraint does not allow that output.
    """
    produced, grammar = sequence.request.output_ids, sequence.grammar
    if not produced:
        return None
    if grammar is not None and not all(_accepts_known(grammar, token) for token in produced):
        raise InternalError("the earlier output leaves no room to close the text")
    finish = _append_certain(sequence, list(produced), [])
    sequence.new_output = NewOutput()
    if finish or (grammar is not None and grammar.must_stop):
        return finish or Finish("stop")
    return _length_limit(sequence, sequence.max_output_tokens)


def take_delta(sequence: Sequence) -> Delta | None:
    """Output added since the last call."""
    new_output = sequence.new_output
    if not new_output.token_ids and not new_output.text:
        return None
    sequence.new_output = NewOutput()
    return Delta(
        request_id=sequence.request.request_id,
        token_ids=tuple(new_output.token_ids),
        text="".join(new_output.text),
        forced_tokens=new_output.forced_tokens,
        logprobs=tuple(new_output.logprobs),
    )


def flush_text(sequence: Sequence, finish: Finish) -> None:
    """Release the text that was held back: the output is finished."""
    if finish.stopped_by:
        return
    stopped = sequence.stops.feed(sequence.detokenizer.flush())
    sequence.new_output.text += [stopped.text, sequence.stops.flush()]


def _accept(
    sequence: Sequence, sampled: SampledToken, redraw: Redraw, await_search: AwaitSearch
) -> SampledToken | Postponed:
    """Accept the token, or another one that leaves room to close the output."""
    grammar = sequence.grammar
    if grammar is None:
        return sampled
    redraws = grammar.redraws
    while not grammar.accept_token(sampled.token_id):
        if grammar.search is not None:
            if not await_search(grammar.search):
                return POSTPONED
        elif redraws:
            redraws -= 1
            sampled = redraw(sampled.token_id)
        else:
            fallback = grammar.fallback_token()
            grammar.accept_token(fallback)
            logprob = TokenLogprob(fallback, 0.0, forced=True) if sampled.logprob else None
            return SampledToken(fallback, logprob)
    return sampled


def _accepts_known(grammar: GrammarState | ReasoningState, token_id: int) -> bool:
    """Accept a token that was accepted before; the searches behind it are made at once."""
    while not grammar.accept_token(token_id):
        if grammar.search is None:
            return False
        grammar.search.run()
    return True


def _append_forced(sequence: Sequence, tokens: list[int]) -> Finish | None:
    """Jump-forward: append tokens that the grammar forces, without a forward."""
    if not tokens:
        return None
    sequence.new_output.forced_tokens += len(tokens)
    sequence.metrics.forced_tokens += len(tokens)
    wants_logprobs = sequence.request.sampling.logprobs > 0
    logprobs = [TokenLogprob(token, 0.0, forced=True) for token in tokens] if wants_logprobs else []
    return _append_certain(sequence, tokens, logprobs)


def _append_certain(
    sequence: Sequence, tokens: list[int], logprobs: list[TokenLogprob]
) -> Finish | None:
    """Append tokens that are final; after a stop string among them the rest is dropped."""
    new_output = sequence.new_output
    reasoning_tokens = sequence.reasoning_tokens
    for at, token in enumerate(tokens):
        text = sequence.detokenizer.feed_ids([token])
        is_reasoning = sequence.output_tokens < reasoning_tokens
        sequence.tokens.append(token)
        new_output.token_ids.append(token)
        new_output.logprobs += logprobs[at : at + 1]
        stopped = StoppedText(text) if is_reasoning else sequence.stops.feed(text)
        if stopped.text:
            new_output.text.append(stopped.text)
        if stopped.stop:
            return Finish("stop", stopped_by=stopped.stop)
    return None


def _length_limit(sequence: Sequence, max_tokens: int) -> Finish | None:
    if 0 < sequence.request.replayed_tokens <= sequence.output_tokens:
        return Finish("stop")
    if sequence.output_tokens < max_tokens:
        return None
    grammar = sequence.grammar
    can_stop = grammar is None or grammar.can_stop
    return Finish("length", closed_early=can_stop and sequence.request.on_limit == "close")
