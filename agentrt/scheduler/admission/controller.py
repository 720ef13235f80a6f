"""Admission control: a run begins to generate once its peak KV fits beside all others.

Without it many runs begin, each takes part of the KV cache and waits for more, and contexts are
evicted and recomputed; with it the same work needs less time. A run commits the peak that past runs
of its template had (`kv_need`, `kv_prior` while they are few), or its actual need once that is
more. An admitted run always goes on, and one run may always run. If the policy goes by remaining
work, a run may use what longer runs will need only after it has ended (`growth`).

Runs that do not fit are overtaken by others that do (backfill). The longest waiting run gets a
reservation once it has waited ten times as long as it would take alone: from then on others
overtake it only if that is not expected to delay it (EASY backfill). A run without a generation for
a second becomes dormant and frees its commitment: it waits for a person, a long tool or another
run, and its KV is evicted at need. Its next generation is not held back, and commits again.

If much time goes into recomputing contexts all the same, the limit is lowered (`thrashing`). If
recomputing is cheaper than steps with fewer sequences, no run is held back (`benefit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentrt.base.ids import RequestId
from agentrt.protocol.step_output import Ledger, StepRecord
from agentrt.scheduler.admission.benefit import NO_BENEFIT, AdmissionBenefit
from agentrt.scheduler.admission.growth import LateGrowth
from agentrt.scheduler.admission.kv_budget import KvBudget, Reservation, fit_reason, reserve
from agentrt.scheduler.admission.kv_need import KvNeed, kv_need, true_kv_need
from agentrt.scheduler.admission.thrashing import STEP, Thrashing
from agentrt.scheduler.admission.waves import waiting_tokens, with_waves
from agentrt.scheduler.decisions import AdmissionDecision, Admit
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.order.request_info import InfoUpdates
from agentrt.scheduler.policies.priority_key import PriorityKey
from agentrt.scheduler.runs.footprint import Footprint
from agentrt.scheduler.runs.run import NodeState, RunState

RESERVE_AFTER_PATHS = 10.0
RESERVE_AFTER_S = 1.0
"""Shortest wait before a run gets a reservation."""

IDLE_S = 1.0
"""Seconds without a generation after which a run is dormant."""

KNOWN_GROWTH_SHARE = 0.5
"""Share of its growth that a run commits if its peak is known: on average it has that much of it
while it grows. Learned peaks are exceeded, so that all of their growth is committed."""


class AdmissionControl:
    """Decides which runs are admitted.

    Args:
        kv_tokens: Tokens by role of an engine: on the device, and in CPU memory.
        share: Share of that memory that runs may commit; 0 admits every run at once.
        foresees: Whether to go by what a replay knows: runs commit their true KV need, they give
            way to shorter ones between two generations, and none gets a reservation.

    Attributes:
        foresees: As given.
        budgets: KV budgets by role, of engines that report their memory.
        running: Admitted runs that have not ended.
        held: Runs held back, the first to come first, and whether that was reported.
        returning: Runs that were admitted and gave way; what they have computed may be cached.
        active: Generations that are with their engine and could run.
        idle: Admitted runs without an active generation, and since when, the longest first.
        dormant: Runs idle for so long that nothing is committed for them.
        has_changed: Whether anything has changed since the last round.
        thrashing: How far the limit is lowered.
        benefit: Whether holding runs back pays; always assumed with several engines.
        closed: Whether runs are held back. Once open, it closes only when every admitted run
            fits; otherwise new runs would wait for all of those.
    """

    def __init__(
        self,
        kv_tokens: Mapping[str, tuple[int, int]],
        share: float,
        *,
        foresees: bool = False,
    ) -> None:
        self._share = share
        self.foresees = foresees
        self.budgets = {
            role: KvBudget(device, host, share)
            for role, (device, host) in kv_tokens.items()
            if device
        }
        self.running: dict[RunState, None] = {}
        self.held: dict[RunState, bool] = {}
        self.returning: dict[RunState, None] = {}
        self.active: dict[NodeState, None] = {}
        self.idle: dict[RunState, float] = {}
        self.dormant: dict[RunState, None] = {}
        self.has_changed = False
        self.thrashing = Thrashing()
        self.benefit = AdmissionBenefit()
        self.closed = True

    @property
    def is_disabled(self) -> bool:
        """Whether every run is admitted at once."""
        return not self._share or not self.budgets

    def set_kv_tokens(self, role: str, kv_tokens: float) -> None:
        """Note the KV memory of an engine that was unknown, or has changed."""
        self.budgets[role] = KvBudget(kv_tokens, 0, self._share)
        self.has_changed = bool(self.held)

    def note_admitted(self, run: RunState, at_s: float) -> None:
        """Note a run that began while nothing was held back."""
        if run not in self.running:
            self.running[run] = None
            self.idle[run] = at_s

    @property
    def next_round_s(self) -> float | None:
        """When more may fit though no event comes, if a run is held back; else None."""
        if not self.held:
            return None
        raised_s = self.thrashing.next_window_s
        if not self.idle:
            return raised_s
        given_back_s = next(iter(self.idle.values())) + IDLE_S
        return given_back_s if raised_s is None else min(given_back_s, raised_s)

    def is_due(self, now_s: float) -> bool:
        """Whether there is something to decide."""
        wake_s = self.next_round_s
        return self.has_changed or (wake_s is not None and now_s >= wake_s)

    def hold_generation(self, node: NodeState, at_s: float) -> None:
        """Hold back a generation of a run that is not admitted yet."""
        run = node.run
        if node.held_at_s is None:
            node.held_at_s = at_s
            run.start_waiting(node, at_s)
        run.held[node] = None
        if run not in self.held:
            self.held[run] = False
            self.has_changed = True

    def gives_way(self, run: RunState) -> bool:
        """Whether a run has to be admitted again before its next generation, with foresight."""
        return bool(self.held) and run in self.running and not run.active_generations

    def suspend_run(self, run: RunState) -> None:
        """Take the admission of a run back; it commits nothing until it is admitted again."""
        for table in (self.running, self.idle, self.dormant):
            table.pop(run, None)
        run.admitted = False
        self.returning[run] = None

    def admit_run(self, run: RunState, at_s: float) -> list[NodeState]:
        """Admit a run; returns its held generations."""
        self.held.pop(run, None)
        self.returning.pop(run, None)
        self.running[run] = None
        self.idle[run] = at_s  # until its generations are active
        run.admit(at_s)
        for role, need in self._needs_of(run).items():
            if tokens := need.entry_tokens:
                run.footprints.setdefault(role, Footprint(tokens)).committed_tokens = tokens
        waiting, run.held = list(run.held), {}
        return waiting

    def remove_held(self, node: NodeState) -> None:
        """Remove a held generation, which ends or is held back for another reason."""
        run = node.run
        run.held.pop(node, None)
        if not run.held:
            self.held.pop(run, None)
            self.has_changed = bool(self.held)

    def remove_run(self, run: RunState) -> None:
        """Remove a finished run."""
        for table in (self.held, self.returning, self.running, self.idle, self.dormant):
            table.pop(run, None)
        self.has_changed = bool(self.held)

    def add_active(self, node: NodeState) -> None:
        """Note that a generation is with its engine and could run."""
        if node.model in self.budgets and node not in self.active:
            self.active[node] = None
            node.run.active_generations += 1
            self.idle.pop(node.run, None)
            self.dormant.pop(node.run, None)

    def remove_active(self, node: NodeState, at_s: float) -> None:
        """Note that a generation has ended, or left its engine."""
        if node not in self.active:
            return
        del self.active[node]
        run = node.run
        run.active_generations -= 1
        if not run.active_generations and run in self.running:
            self.idle[run] = at_s

    def end_round(self, now_s: float, closed: bool) -> None:
        """End a round of decisions; runs that have been idle for long become dormant."""
        self.has_changed = False
        self.closed = closed
        self.thrashing.end_window(now_s)
        while self.idle:
            run, since_s = next(iter(self.idle.items()))
            if now_s < since_s + IDLE_S:
                break
            del self.idle[run]
            self.dormant[run] = None

    def note_step(self, step: StepRecord) -> None:
        """Learn from a step of an engine."""
        if len(self.budgets) == 1 and not self.is_disabled:
            self.benefit.note_step(step)

    def note_end(self, ledger: Ledger, lost_tokens: float, at_s: float, recompute_s: float) -> None:
        """Learn from an ended generation.

        Args:
            ledger: Final metrics of the request.
            lost_tokens: Prompt tokens that its engine had had before and had lost.
            at_s: Instant of the end.
            recompute_s: Time for which its engine recomputed lost KV.
        """
        limit_changed = self.thrashing.note_recompute(at_s, recompute_s)
        context_tokens = ledger.cached_tokens + lost_tokens
        benefit_changed = len(self.budgets) == 1 and self.benefit.note_end(
            context_tokens, ledger.output_tokens
        )
        if limit_changed or benefit_changed:
            self.has_changed = True

    def limit_tokens(self, role: str, now_s: float) -> float:
        """Tokens of an engine that runs may commit now."""
        limit_tokens: float = self.budgets[role].limit_tokens
        return limit_tokens * STEP ** self.thrashing.steps_at(now_s)

    def committed_tokens(self, role: str, now_s: float) -> float:
        """Tokens of an engine that runs have committed, or need if that is more."""
        return sum(self.run_tokens(run, role, now_s) for run in self.running)

    def run_tokens(self, run: RunState, role: str, now_s: float) -> float:
        """Tokens of an engine that a run has committed, or needs if that is more."""
        footprint = run.footprints.get(role)
        if footprint is None or run in self.dormant:
            return 0.0
        if run in self.idle and now_s >= self.idle[run] + IDLE_S:
            return 0.0
        growth_tokens = max(0.0, footprint.committed_tokens - footprint.context_tokens)
        share = KNOWN_GROWTH_SHARE if self.foresees else 1.0
        return footprint.context_tokens + share * growth_tokens

    def decide_admissions(self, now_s: float, order: Order) -> Admit:
        """Decide which held runs are admitted; includes newly held ones."""
        committed = {role: self.committed_tokens(role, now_s) for role in self.budgets}
        in_use = {role: tokens > 0.0 for role, tokens in committed.items()}
        free = {role: self.limit_tokens(role, now_s) - committed[role] for role in self.budgets}
        closed = self.benefit.pays and (self.closed or min(free.values()) >= 0.0)
        admitted: list[RunState] = []
        decisions: list[AdmissionDecision] = []
        needs = {run: self._needs_of(run) for run in self.held}
        reserved = self._reserved_run(now_s) if closed and not self.foresees else None
        reservation: Reservation | None = None
        waves = self._waves(now_s, order)
        late = self._late_growth(now_s) if order.policy.borrows else {}
        held = list(self.held)
        if len(held) > 1:
            held.sort(key=lambda run: self._priority(run, needs[run], now_s, order))
        for run in held:
            room = free
            if waves:
                key = self._priority(run, needs[run], now_s, order)[0]
                room = with_waves(free, (given for other, given in waves if other > key))
            if late and run.path_p50_s:
                room = {at: room[at] + late[at].after(run.path_p50_s) for at in room}
            reason = fit_reason(needs[run], room, in_use) if closed else NO_BENEFIT
            if reason and reserved is not None and run is not reserved:
                reservation = reservation or self._reservation(
                    reserved, needs, free, admitted, now_s
                )
                reason = reservation.backfill_reason(run, needs[run], now_s)
            if reason or not self.held[run]:
                decisions.append(self._decision(run, reason, needs[run], free, now_s))
            if reason:
                admitted.append(run)
                reservation = None
                for role, need in needs[run].items():
                    free[role] -= need.entry_tokens
                    in_use[role] |= need.entry_tokens > 0.0
                if run is reserved:
                    reserved = None
        return Admit(tuple(decisions), now_s, closed)

    def _needs_of(self, run: RunState) -> dict[str, KvNeed]:
        """KV needs of a held run, by role."""
        return {
            role: (true_kv_need if self.foresees else kv_need)(run, role, budget.limit_tokens)
            for role, budget in self.budgets.items()
        }

    def _priority(
        self, run: RunState, needs: Mapping[str, KvNeed], now_s: float, order: Order
    ) -> tuple[PriorityKey, float]:
        node = next(iter(run.held))
        peak = max((need.peak_tokens for need in needs.values()), default=0.0)
        info = InfoUpdates(now_s).info_of(node, RequestId(node.arrival))
        if run in self.returning and info.true_rest_s is not None:
            info = replace(info, true_rest_s=max(0.0, info.true_rest_s - self._recompute_s(run)))
        return order.key(now_s, info, int(peak)), run.started_at_s

    def _recompute_s(self, run: RunState) -> float:
        """Time of computing the context of a run again, if it is evicted while the run waits."""
        context_tokens = sum(one.context_tokens for one in run.footprints.values())
        return context_tokens * self.benefit.prefill_s

    def _waves(self, now_s: float, order: Order) -> list[tuple[PriorityKey, dict[str, float]]]:
        """Tokens that running forks leave to more urgent runs, each with the key of the fork."""
        if not self.foresees or not self.held:
            return []
        found = []
        for run in self.running:
            given = {
                role: waiting_tokens(run, role, self.run_tokens(run, role, now_s))
                for role in self.budgets
            }
            if any(given.values()):
                node = next(iter(run.waiting))
                info = InfoUpdates(now_s).info_of(node, RequestId(node.arrival))
                found.append((order.key(now_s, info), given))
        return found

    def _late_growth(self, now_s: float) -> dict[str, LateGrowth]:
        """Growth of the admitted runs, by role."""
        return {
            role: LateGrowth(
                (run.path_p50_s, self.run_tokens(run, role, now_s) - known.context_tokens)
                for run in self.running
                if (known := run.footprints.get(role)) is not None
            )
            for role in self.budgets
        }

    def _reserved_run(self, now_s: float) -> RunState | None:
        """The longest waiting run, if it has waited long for its expected duration."""
        for run in self.held:
            node = next(iter(run.held))
            assert node.held_at_s is not None
            long_s = max(RESERVE_AFTER_S, RESERVE_AFTER_PATHS * run.path_p50_s)
            return run if now_s - node.held_at_s > long_s else None
        return None

    def _reservation(
        self,
        reserved: RunState,
        needs: Mapping[RunState, dict[str, KvNeed]],
        free: Mapping[str, float],
        admitted: list[RunState],
        now_s: float,
    ) -> Reservation:
        """When the reserved run can begin, by the p90 of the ends of runs with estimates."""
        known = [(run.ends_at_s, run) for run in self.running if run.ends_at_s is not None]
        known += [(now_s + run.path_p90_s, run) for run in admitted if run.path_p90_s]
        known.sort(key=lambda end: end[0])

        def tokens_of(run: RunState) -> dict[str, float]:
            if run in admitted:
                return {role: need.entry_tokens for role, need in needs[run].items()}
            return {role: self.run_tokens(run, role, now_s) for role in self.budgets}

        freed = ((at_s, tokens_of(run)) for at_s, run in known)
        return reserve(needs[reserved], free, freed, now_s)

    def _decision(
        self,
        run: RunState,
        reason: str,
        needs: Mapping[str, KvNeed],
        free: Mapping[str, float],
        now_s: float,
    ) -> AdmissionDecision:
        node = next(iter(run.held))
        assert node.held_at_s is not None
        terms: list[tuple[str, float]] = [("held_s", now_s - node.held_at_s)]
        lowered_tokens = 0.0
        for role, budget in self.budgets.items():
            name = "" if len(self.budgets) == 1 else f"{role}."
            limit_tokens = self.limit_tokens(role, now_s)
            lowered_tokens = max(lowered_tokens, budget.limit_tokens - limit_tokens)
            terms += [
                (f"{name}peak_tokens", needs[role].peak_tokens),
                (f"{name}entry_tokens", needs[role].entry_tokens),
                (f"{name}committed_tokens", limit_tokens - free[role]),
                (f"{name}limit_tokens", limit_tokens),
            ]
        explanation = reason or "the KV memory is set aside for others"
        if lowered_tokens:
            terms.append(("computed_again_share", self.thrashing.share_at(now_s)))
            explanation = reason or f"{explanation}, and less of it, as contexts are computed again"
        return AdmissionDecision(run.run_id, node.node_id, bool(reason), explanation, tuple(terms))
