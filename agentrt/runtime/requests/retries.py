"""Retries: an answer that does not pass its check is complained about, and given once more.

The next attempt continues the failed answer: its prompt is cached except for the complaint, and the
model sees what was wrong. It has a seed of its own. Failed answers stay out of the chat: it
continues from the answer that passed, behind the original prompt.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.errors import CheckFailed, FailedAttempt, OutputUnreadable
from agentrt.base.ids import NodeId
from agentrt.base.segments import Close, Generated, Open
from agentrt.program.generation import forget_text, retry
from agentrt.program.options import RETRIES
from agentrt.program.prompt_prefix import extended
from agentrt.protocol.events import AttemptFailed, Event, PromptRevised
from agentrt.protocol.step_output import End
from agentrt.runtime.in_flight.in_flight import InFlight

NOT_ENFORCED = (
    "This server is not known to enforce it (agentrt doctor --engine): use another one, or a "
    "simpler type"
)
COMPLAINT = "This answer is not valid: {reason}.\nGive the whole answer again, corrected."


def ask_again(request: InFlight, end: End, reason: str) -> list[Event]:
    """Let the model answer once more; no events if it has done so as often as it may.

    Text that the program may have read is not taken back: then there is no other answer.

    Args:
        request: The request that has ended.
        end: How it ended.
        reason: Why its answer does not pass.
    """
    run, gen = request.run, request.gen
    unmet = end.unmet
    answer = request.answer if unmet is None else unmet.text
    gen.attempts += (FailedAttempt(answer, reason),)
    made = len(gen.attempts)
    most = gen.work.retries if gen.work.output.kind == "value" else RETRIES
    is_read = unmet is None and request.unchecked_text is None and gen.written.handed_on
    if made > most or is_read:
        return []
    answered = extended(gen.prompt, (Open("assistant"), _said(request, answer), Close()))
    chat = answered.user(COMPLAINT.format(reason=reason.rstrip(".")))
    forget_text(gen)
    retry(gen, chat, run.seed_of(NodeId(f"{gen.id}/attempt#{made}")))
    run.declared_with_holes.discard(gen.id)
    now_s = run.now_s()
    return [
        AttemptFailed(run.run_id, gen.id, made - 1, reason, end.ledger, now_s),
        PromptRevised(run.run_id, gen.id, (), now_s),
    ]


def _said(request: InFlight, answer: str) -> Generated:
    """A failed answer as the next attempt continues it."""
    generated = request.gen.written.generated
    if generated.text:
        return replace(generated, content=answer)
    return Generated(answer)


def check_failed(request: InFlight, end: End) -> CheckFailed:
    """The error of a node after its last attempt, with every attempt and its reason."""
    gen = request.gen
    hint = "" if end.unmet is None else NOT_ENFORCED
    reasons = "; ".join(f"({at}) {one.reason}" for at, one in enumerate(gen.attempts, 1))
    kind = CheckFailed if gen.work.output.checked else OutputUnreadable
    passes = "that passes its check" if gen.work.output.checked else "that can be read"
    return kind(
        f"{gen.label}: none of {len(gen.attempts)} answers is a {gen.work.output.name} "
        f"{passes}: {reasons}",
        attempts=gen.attempts,
        where=gen.site,
        hint=hint,
    )
