"""Answers that do not pass their check: told to the model, which answers again.

The next attempt goes on from the answer that failed, so that all of its prompt is known but for the
complaint, and the model sees what was wrong; it has a seed of its own besides. What is gone on from
later is the answer that passed, behind the prompt as it was: the failed ones stay out of the chat.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.errors import CheckFailed, FailedAttempt
from agentrt.base.ids import NodeId
from agentrt.base.segments import Close, Open
from agentrt.protocol.events import AttemptFailed, Event, PromptRevised
from agentrt.protocol.step_output import End
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.run import Run

COMPLAINT = "This answer is not valid: {reason}.\nGive the whole answer again, corrected."


def ask_again(run: Run, live: InFlight, end: End, reason: str) -> list[Event]:
    """Ask once more; nothing where that was done as often as it may be.

    Args:
        run: Of the node.
        live: The request that is over.
        end: How it ended.
        reason: Why its answer does not pass.
    """
    gen, now_s = live.gen, run.now_s()
    gen.attempts += (FailedAttempt(live.answer, reason),)
    made = len(gen.attempts)
    if made > gen.work.retries:
        return []
    said = gen.prompt.extended(
        (Open("assistant"), replace(gen.generated, content=live.answer), Close())
    )
    chat = said.user(COMPLAINT.format(reason=reason.rstrip(".")))
    gen.retry(chat, run.seed_of(NodeId(f"{gen.id}/attempt#{made}")))
    run.waited_for_parts.discard(gen.id)
    return [
        AttemptFailed(run.run_id, gen.id, made - 1, reason, end.ledger, now_s),
        PromptRevised(run.run_id, gen.id, (), now_s),
    ]


def failure(live: InFlight) -> CheckFailed:
    """What the node ends with: every attempt and its reason."""
    gen = live.gen
    told = "; ".join(f"({at}) {one.reason}" for at, one in enumerate(gen.attempts, 1))
    count = len(gen.attempts)
    return CheckFailed(
        f"{gen.label}: none of {count} answers is a {gen.work.output.name} that passes its "
        f"check: {told}",
        attempts=gen.attempts,
        where=gen.site,
    )
