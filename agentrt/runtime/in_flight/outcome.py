"""The outcome of a request: the value or the error of its node, and what the node keeps."""

from __future__ import annotations

import math
from typing import Any

from agentrt.base.errors import (
    AgentrtError,
    CheckFailed,
    InternalError,
    NodeCancelled,
    OutputUnreadable,
    RequestRejected,
    Truncated,
    revive,
)
from agentrt.base.record import record
from agentrt.base.segments import Generated
from agentrt.program import Gen, GenMeta, Score
from agentrt.protocol.step_output import End, OptionScore
from agentrt.runtime.in_flight.in_flight import InFlight


@record
class Outcome:
    """A value, an error, or an answer that did not pass its check.

    Attributes:
        value: The value; None with an error.
        error: The error of the node, or None.
        failed_check: Why the answer does not pass its check, or None.
    """

    value: Any = None
    error: Exception | None = None
    failed_check: str | None = None


def outcome_of(request: InFlight, end: End) -> Outcome:
    """Read the whole output of a request that has ended."""
    error = request.stop_error
    if error is None and end.reason != "stop":
        error = _engine_error(request, end)
    if error is not None:
        return Outcome(error=error)
    if end.unmet is not None:
        return Outcome(failed_check=end.unmet.reason)
    try:
        return Outcome(request.reader.finish(request.answer))
    except Exception as cause:
        checked = request.gen.work.output.checked and isinstance(cause, ValueError)
        if checked or _fails_check(cause) or _is_enforced(request, cause):
            return Outcome(failed_check=str(cause) or type(cause).__name__)
        return Outcome(error=unreadable(request, cause))


def _fails_check(error: Exception) -> bool:
    """Whether a value was read and does not fit the schema that was asked for."""
    from agentrt.structured.json_schema.exact_check import Unmet

    return isinstance(error, Unmet)


def _is_enforced(request: InFlight, error: Exception) -> bool:
    """Whether the text was held to its grammar, and its reader fails nevertheless."""
    held = request.engine.capabilities.backend in ("embedded", "remote")
    return held and not isinstance(error, AgentrtError)


def keep_result(request: InFlight, end: End) -> None:
    """Keep on the node how its generation went, and the answer as prompts will hold it."""
    gen, takes = request.gen, request.takes
    gen.logprobs = tuple(request.logprobs)
    gen.meta = GenMeta(
        takes.model, end.reason, end.closed_early, end.ledger, gen.logprobs, end.stopped_by
    )
    request.count_rest(end.ledger.output_tokens + end.ledger.retried_tokens)
    # A stop string is part of the ids but not of the text, and a remote engine's closing is part of
    # the text alone: then chats continue from the text.
    closing = end.constraint is not None and end.constraint.closing_characters > 0
    gen.output_ids = tuple(request.output_ids)
    ids = gen.output_ids if takes.codec and not end.stopped_by and not closing else ()
    raw, calls, content, head = request.raw_text, request.reader.calls(), "", ""
    if request.reasoning is None:
        content = request.reader.content()
        if gen.written.reasoning:  # reported separately
            content, head = content or raw, "".join(gen.written.reasoning)
    else:
        content = request.reader.content() if calls else request.answer
        head = raw.removesuffix(request.answer)
    gen.written.generated = Generated(raw, ids, takes.codec if ids else "", calls, content, head)
    if end.scores:
        gen.scores = _scores(gen, end.scores)


def unreadable(request: InFlight, error: Exception) -> AgentrtError:
    """The error for an output that is not of its type, which the engine should have enforced."""
    if isinstance(error, AgentrtError):
        return error
    gen = request.gen
    if _fails_check(error):
        problem = f"{gen.label}: a part of the output fails its check: {error}"
        return CheckFailed(problem, where=gen.site)
    message = (
        f"{gen.label}: the output {gen.text[:200]!r} is no {gen.work.output.name} "
        f"({str(error).splitlines()[0]})"
    )
    if _is_enforced(request, error):
        return OutputUnreadable(message)
    return RequestRejected(
        message, hint="This engine does not enforce output types: use another, or a simpler type"
    )


_NOT_CLOSED = {
    False: "This engine cannot close outputs early: raise max_tokens",
    True: "No valid end of this text was found: raise max_tokens",
}


def _engine_error(request: InFlight, end: End) -> Exception | None:
    """The error that follows from the way in which the engine ended the request, or None."""
    gen, output = request.gen, request.gen.work.output
    match end.reason:
        case "failed":
            if end.error is None:
                return InternalError(f"{gen.label} failed without an error")
            return revive(end.error)
        case "cancelled":
            return NodeCancelled(
                f"{gen.label} was cancelled by its engine", reason="cancelled by the engine"
            )
        case "length" if output.kind != "raw" and (
            request.is_reasoning
            or (
                output.constraint is not None
                and not end.closed_early
                and not request.reader.may_end
            )
        ):
            closes = gen.work.on_limit == "close"
            hint = "" if not closes else _NOT_CLOSED[request.takes.closes]
            return Truncated(
                f"{gen.label} reached max_tokens={gen.max_tokens} before its {output.name} "
                "was complete",
                partial_text=request.answer,
                partial=request.reader.partial(request.answer),
                hint=hint,
            )
        case _:
            return None


def _scores(gen: Gen[Any], scores: tuple[OptionScore, ...]) -> tuple[Score[Any], ...]:
    """The scores of the options of a choice, with the values that the options stand for."""
    output = gen.work.output
    constraint = output.known_constraint
    assert constraint is not None
    best = max(one.logprob for one in scores)
    weights = [math.exp(one.logprob - best) for one in scores]
    return tuple(
        Score(output.parse(option), weight / sum(weights), one.logprob, one.tokens)
        for option, weight, one in zip(constraint.options, weights, scores, strict=True)
    )
