"""What happens to a sequence when it gets tokens: text, forced runs, and whether it is over."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RequestId
from agentrt.engine.sampling.sampler import SampledToken
from agentrt.engine.sequence.sequence import NewOutput, Sequence
from agentrt.engine.sequence.stop_strings import StoppedText
from agentrt.protocol.step_output import Delta, FinishReason, OptionScore, TokenLogprob

Redraw = Callable[[int], SampledToken]
"""Forbid a token and draw again."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a sequence is over.

    Attributes:
        reason: For the `End`.
        closed_early: It was driven to its shortest valid end.
        stopped_by: The stop string that ended it, or "".
        error: Set with `failed`.
        scores: Of the options, where they were scored.
    """

    reason: FinishReason
    closed_early: bool = False
    stopped_by: str = ""
    error: ErrorRecord | None = None
    scores: tuple[OptionScore, ...] = ()


@dataclass(slots=True, eq=False)
class SampledStep:
    """What the tokens of a step led to.

    Attributes:
        finishes: Sequences that are over.
        masks_s: Seconds that the mask of each sequence took.
    """

    finishes: list[tuple[Sequence, Finish]] = field(default_factory=list)
    masks_s: dict[RequestId, float] = field(default_factory=dict)


def append(
    sequence: Sequence, picked: SampledToken, redraw: Redraw, eos_ids: frozenset[int]
) -> Finish | None:
    """Add a sampled token, and what its grammar forces after it.

    Args:
        sequence: Which.
        picked: The token.
        redraw: Another one, where this would leave no room to close the output.
        eos_ids: Tokens that end an output.
    """
    most_tokens = sequence.most_output_tokens
    thinks = sequence.thinks  # the mark that ends a thought may be an end token, too
    picked = _accepted(sequence, picked, redraw)
    if not thinks and picked.token_id in eos_ids:
        return Finish("stop")
    finish = _put(sequence, [picked.token_id], [picked.logprob] if picked.logprob else [])
    guide = sequence.guide
    if finish or guide is None:
        return finish or _limit(sequence, most_tokens)
    finish = _put_forced(sequence, guide.forced(most_tokens - sequence.output_tokens))
    if finish or guide.must_stop:
        return finish or Finish("stop")
    if guide.has_no_choice:
        return close(sequence)
    sequence.draft = guide.draft(most_tokens - sequence.output_tokens - 1)
    return _limit(sequence, most_tokens)


def choose(sequence: Sequence) -> Finish | None:
    """Write the likeliest option, or at a temperature one that is drawn; None where some are left.

    What is drawn from are the probabilities of whole options, to the power of `1 / temperature`.
    """
    options, how = sequence.options, sequence.request.sampling
    if options is None or options.left:
        return None
    scores = tuple(options.scores[at] for at in range(len(options.token_ids)))
    told = [score.logprob for score in scores]
    chosen = max(range(len(told)), key=told.__getitem__)
    if how.temperature > 0:
        weights = [math.exp((one - told[chosen]) / how.temperature) for one in told]
        chosen = random.Random(how.seed).choices(range(len(told)), weights)[0]
    _put(sequence, options.token_ids[chosen], [])
    return Finish("stop", scores=scores)


def close(sequence: Sequence) -> Finish:
    """Drive the output to its shortest valid end at once: no forward is needed for that."""
    guide = sequence.guide
    if guide is not None:
        guide.free()
    if guide is not None and not guide.is_whole:
        finish = _put_forced(sequence, guide.close())
        if finish:
            return finish
    return Finish("length", closed_early=True)


def open_with(sequence: Sequence, most_tokens: int) -> Finish | None:
    """Tokens that are forced before the first is sampled: they join the prompt's last chunk."""
    guide = sequence.guide
    if guide is None:
        return None
    finish = _put_forced(sequence, guide.forced(most_tokens))
    if finish or guide.must_stop:
        return finish or Finish("stop")
    if guide.has_no_choice:
        return close(sequence)
    sequence.draft = guide.draft(most_tokens - sequence.output_tokens - 1)
    return None


def take_delta(sequence: Sequence) -> Delta | None:
    """What was added since the last time."""
    fresh = sequence.fresh
    if not fresh.token_ids and not fresh.text:
        return None
    sequence.fresh = NewOutput()
    return Delta(
        request_id=sequence.request.request_id,
        token_ids=tuple(fresh.token_ids),
        text="".join(fresh.text),
        forced_tokens=fresh.forced_tokens,
        logprobs=tuple(fresh.logprobs),
    )


def flush(sequence: Sequence, finish: Finish) -> None:
    """The output is over: what was held back of its text is certain now."""
    if finish.stopped_by:
        return
    passed = sequence.stops.push(sequence.detokenizer.flush())
    sequence.fresh.text += [passed.text, sequence.stops.flush()]


def _accepted(sequence: Sequence, picked: SampledToken, redraw: Redraw) -> SampledToken:
    guide = sequence.guide
    if guide is None:
        return picked
    for _ in range(guide.redraws):
        if guide.take(picked.token_id):
            return picked
        picked = redraw(picked.token_id)
    if guide.take(picked.token_id):
        return picked
    way_out = guide.fallback()
    guide.take(way_out)
    return SampledToken(
        way_out, TokenLogprob(way_out, 0.0, forced=True) if picked.logprob else None
    )


def _put_forced(sequence: Sequence, tokens: list[int]) -> Finish | None:
    if not tokens:
        return None
    sequence.fresh.forced_tokens += len(tokens)
    sequence.account.forced_tokens += len(tokens)
    wants = sequence.request.sampling.logprobs > 0
    logprobs = [TokenLogprob(token, 0.0, forced=True) for token in tokens] if wants else []
    return _put(sequence, tokens, logprobs)


def _put(sequence: Sequence, tokens: list[int], logprobs: list[TokenLogprob]) -> Finish | None:
    """Tokens that are certain; with a stop string among them the rest is not produced."""
    fresh = sequence.fresh
    fresh.logprobs += logprobs
    thought_tokens = sequence.thought_tokens
    for token in tokens:
        text = sequence.detokenizer.push([token])
        in_thought = sequence.output_tokens < thought_tokens
        sequence.tokens.append(token)
        fresh.token_ids.append(token)
        passed = StoppedText(text) if in_thought else sequence.stops.push(text)
        if passed.text:
            fresh.text.append(passed.text)
        if passed.stop:
            return Finish("stop", stopped_by=passed.stop)
    return None


def _limit(sequence: Sequence, most_tokens: int) -> Finish | None:
    if sequence.output_tokens < most_tokens:
        return None
    guide = sequence.guide
    whole = guide is None or guide.is_whole
    return Finish("length", closed_early=whole and sequence.request.on_limit == "close")
