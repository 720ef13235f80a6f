"""The request of a generation as its engine gets it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentrt.base.errors import InternalError
from agentrt.program import Gen
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.protocol.events import RequestSent
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.requests.prompts import Prompt, is_rewritten
from agentrt.runtime.run import Run


def engine_request(
    run: Run,
    gen: Gen[Any],
    prompt: Prompt,
    info: SchedulingInfo,
    *,
    adapter: str = "",
    is_remote: bool = False,
) -> GenerateRequest:
    """The request of a generation as its engine gets it."""
    work = gen.work
    sampling = work.sampling
    if prompt.max_tokens != sampling.max_tokens:
        sampling = replace(sampling, max_tokens=prompt.max_tokens)
    return GenerateRequest(
        info.request_id,
        run.run_id,
        gen.id,
        gen.site,
        prompt.sent,
        sampling,
        prompt.constraint,
        work.on_limit,
        info.demanded,
        info.deadline_at_s,
        run.now_s(),
        work.output.keep_special or work.thinking_tokens is not None,
        info,
        work.thinking_tokens,
        work.scored,
        run.options.cache_salt,
        gives_back=bool(gen.scope.cost_budgets),
        traceparent=traceparent_of(run, gen, complete=prompt.complete) if is_remote else "",
        adapter=adapter,
    )  # by position: keywords would take twice as long


def traceparent_of(run: Run, gen: Gen[Any], *, complete: bool) -> str:
    """The span that a remote engine gets with the request, or with the last part of its prompt."""
    if not complete:
        return run.spans.program_traceparent(gen)
    return run.spans.traceparent(gen, run.now_s() if gen.id in run.declared_with_holes else None)


def sent_event(request: InFlight, sent: GenerateRequest, held_s: float) -> RequestSent:
    """The event of a request that is sent."""
    takes = request.takes
    return RequestSent(
        sent.run_id,
        sent.node_id,
        sent.request_id,
        takes.backend,
        takes.model,
        request.prompt_complete,
        sent.submitted_at_s,
        held_s,
        len(request.prompt_ids),
    )


def extends(prompt: Prompt, request: InFlight) -> bool:
    """Whether the prompt extends the part that the engine has, or is the beginning of it.

    Raises:
        InternalError: The prompt does not, although no chat in it was made shorter, and no text in
            it was unfinished.
    """
    known, sent = prompt.token_ids, request.prompt_ids
    if known[: len(sent)] == sent or (not prompt.complete and sent[: len(known)] == known):
        return True  # it is shorter while a tool is tried again
    if request.takes_unfinished or is_rewritten(request.gen.prompt):
        return False
    raise InternalError(
        f"the prompt of {request.gen.label} changed while it was being filled: "
        f"{len(request.prompt_ids)} tokens were sent and are not its beginning any more"
    )
