"""Account of KV memory while an engine computes: what has it, and for what the rest is set aside.

It shows why more runs are not served at once: because sequences have the memory, or because it is
committed to runs that do not use it yet.
"""

from __future__ import annotations

from collections.abc import Collection

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.sequence import Sequence
from agentrt.engine.step.step_runner import InFlightStep
from agentrt.lab.sim.true_kv_need import ROLE
from agentrt.scheduler.admission.controller import AdmissionControl
from agentrt.scheduler.runs.run import RunState

QUANTITIES = (
    *("decoding_tokens", "prefilling_tokens", "cached_tokens", "free_tokens"),
    *("used_tokens", "queued_tokens", "unreached_tokens", "paused_tokens"),
    *("spare_tokens", "over_tokens", "held_runs", "rows", "prompt_share"),
)
"""Names of all quantities."""


class MemoryAccount:
    """Averages of an engine's KV memory over the time of its steps, in tokens.

    The first four are all of the memory: pages of sequences past their prompt (a page of several
    counts once), further pages of sequences with a prompt to compute, pages that no sequence uses,
    and empty ones. The next four are what admitted runs have committed: for what their sequences
    have, for requests that wait in the engine, for growth that has not come, and by runs without a
    request, whose tools or people work. The others: tokens that may be committed and are not while
    runs are held back; tokens committed beyond the limit, which are lent, or of runs that came to
    more or came back; runs held back; decoded sequences; the share of the time in steps with a
    prompt.

    Args:
        admission: Admission control of the runtime.
    """

    def __init__(self, admission: AdmissionControl) -> None:
        self._admission = admission
        self._sums = dict.fromkeys(QUANTITIES, 0.0)
        self._busy_s = 0.0

    @property
    def averages(self) -> dict[str, float]:
        """Each quantity by name, on average over the time of steps."""
        return {name: value / max(self._busy_s, 1e-9) for name, value in self._sums.items()}

    def note_step(
        self, step: InFlightStep, running: Collection[Sequence], allocator: KvAllocator
    ) -> None:
        """Note a step that has begun, or several equal ones.

        Args:
            step: The step.
            running: Sequences that hold a slot.
            allocator: Allocator of the engine.
        """
        spans = step.batch.spans
        seconds = spans[-1].ended_s - spans[0].began_s
        size, pool = allocator.page_tokens, allocator.pool
        rows = zip(step.scheduled.sequences, step.decodes, strict=True)
        decoding = {sequence for (sequence, _), decodes in rows if decodes}
        prompts = [one for one in running if one not in decoding]
        pages = {page for one in decoding for page in one.pages}
        further = {page for one in prompts for page in one.pages} - pages
        idle_pages = pool.total_pages - pool.free_pages - len(pages) - len(further)
        found = {
            "decoding_tokens": float(size * len(pages)),
            "prefilling_tokens": float(size * len(further)),
            "cached_tokens": float(size * idle_pages),
            "free_tokens": float(size * pool.free_pages),
            "rows": float(len(decoding)),
            "prompt_share": float(len(decoding) < len(step.decodes)),
        }
        if not self._admission.is_disabled:
            found |= self._commitments(running, size, spans[0].began_s)
        self._busy_s += seconds
        for name, value in found.items():
            self._sums[name] += seconds * value

    def _commitments(
        self, running: Collection[Sequence], page_tokens: int, now_s: float
    ) -> dict[str, float]:
        """Commitments within the limit, and beyond it, by name."""
        admission = self._admission
        pages: dict[str, set[int]] = {}
        for one in running:
            pages.setdefault(one.request.run_id, set()).update(one.pages)
        used = queued = unreached = paused = 0.0
        for run in admission.running:
            tokens = admission.run_tokens(run, ROLE, now_s)
            if not run.active_generations:
                paused += tokens
                continue
            has = min(tokens, float(page_tokens * len(pages.get(run.run_id, ()))))
            waits = min(tokens - has, _waiting_tokens(run))
            used, queued = used + has, queued + waits
            unreached += tokens - has - waits
        left = admission.limit_tokens(ROLE, now_s) - used - queued - unreached - paused
        return {
            "used_tokens": used,
            "queued_tokens": queued,
            "unreached_tokens": unreached,
            "paused_tokens": paused,
            "spare_tokens": max(0.0, left) if admission.held else 0.0,
            "over_tokens": max(0.0, -left),
            "held_runs": float(len(admission.held)),
        }


def _waiting_tokens(run: RunState) -> float:
    """Expected KV of the requests of a run that wait in the engine."""
    return sum(node.context_tokens for node in run.waiting)
