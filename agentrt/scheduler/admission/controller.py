"""Admission by KV memory: a run begins to generate when the peaks of all that have still fit.

Without a gate many runs begin, each fills some of the memory and waits for more, and contexts are
evicted and computed again; with it the same work is done with less. What is set aside for a run is
the peak that past runs of its template had (`peak`, `cold_start` while they are few), or what it
really needs once that is more. A run that was let in always goes on, and one may always run.

Runs that do not fit are passed by others that do (backfill). The one that has waited longest gets
a reservation once it waited ten times what it would take alone: from then on others pass it only
where that does not make it wait longer, by what is expected of those that run (EASY backfill).
A run that has had no generation with an engine for a second gives its place back: it waits for a
person or a long tool, or for another run, and what it left in memory is evicted at need. Its next
generation goes on all the same, and counts again from there.

Where contexts are computed again for much of the time all the same, less is let in (see `thrash`).
Where that would cost less than steps that fewer sequences share, nobody is held (see `worth`).
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.ids import RequestId
from agentrt.base.record import record
from agentrt.protocol.step_output import Ledger, StepRecord
from agentrt.scheduler.admission.benefit import AdmissionBenefit
from agentrt.scheduler.admission.kv_need import KvNeed, need_of
from agentrt.scheduler.admission.thrashing import STEP, Thrashing
from agentrt.scheduler.decisions import AdmissionDecision, Admit
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.order.request_info import InfoUpdates
from agentrt.scheduler.policies.priority_key import PriorityKey
from agentrt.scheduler.runs.footprint import Footprint
from agentrt.scheduler.runs.run import NodeState, RunState

RESERVE_AFTER_PATHS = 10.0
RESERVE_AFTER_S = 1.0
"""Nothing is reserved for a run that has waited less than this."""

IDLE_S = 1.0

CHEAP = "contexts take less to compute again than steps that fewer share"


@record
class Reservation:
    """What a reservation leaves to others.

    Attributes:
        begins_at_s: When the run that has it can begin, at the latest as is expected.
        spare_tokens: By role, what is free then beside it.
    """

    begins_at_s: float
    spare_tokens: dict[str, float]

    def passes(self, run: RunState, needs: Mapping[str, KvNeed], now_s: float) -> str:
        """Why another run may begin before it, or ""."""
        if run.path_p90_s > 0.0 and now_s + run.path_p90_s <= self.begins_at_s:
            return "it ends before the run with the reservation could begin"
        if all(need.entry_tokens <= self.spare_tokens[role] for role, need in needs.items()):
            return "it fits beside the run with the reservation"
        return ""


class KvBudget:
    """The KV memory of one engine.

    Attributes:
        kv_tokens: That its device holds.
        limit_tokens: What may be set aside of it and of its host tier.
    """

    __slots__ = ("kv_tokens", "limit_tokens")

    def __init__(self, kv_tokens: int, host_kv_tokens: int, share: float) -> None:
        self.kv_tokens = kv_tokens
        self.limit_tokens = share * (kv_tokens + min(host_kv_tokens, kv_tokens))


class AdmissionControl:
    """Lets runs in.

    Args:
        kv_tokens: By role of an engine: tokens that it holds on the device, and on the host.
        share: Of that memory, what may be set aside; 0 lets every run in at once.

    Attributes:
        rooms: By role, of engines that tell their memory.
        running: Runs that were let in and are not over.
        held: Runs that wait, first to come first, and whether that was told.
        working: Generations that their engine has and could run.
        idle: Runs that were let in and have none, and since when, longest first.
        away: Those of whom that has been so for long: nothing is set aside for them.
        stale: Something has changed since it was looked at last.
        thrash: How far it is lowered.
        worth: Whether holding anybody back is worth it; with several engines it is taken to be.
        closed: Whether it does. Once it was open, not before all that came in fit: newcomers would
            wait for every one of those.
    """

    __slots__ = (
        "_share",
        "away",
        "closed",
        "held",
        "idle",
        "rooms",
        "running",
        "stale",
        "thrash",
        "working",
        "worth",
    )

    def __init__(self, kv_tokens: Mapping[str, tuple[int, int]], share: float) -> None:
        self._share = share
        self.rooms = {
            role: KvBudget(device, host, share)
            for role, (device, host) in kv_tokens.items()
            if device
        }
        self.running: dict[RunState, None] = {}
        self.held: dict[RunState, bool] = {}
        self.working: dict[NodeState, None] = {}
        self.idle: dict[RunState, float] = {}
        self.away: dict[RunState, None] = {}
        self.stale = False
        self.thrash = Thrashing()
        self.worth = AdmissionBenefit()
        self.closed = True

    @property
    def is_open(self) -> bool:
        """Whether every run is let in at once."""
        return not self._share or not self.rooms

    @property
    def wake_s(self) -> float | None:
        """When there is more room though nothing has happened, while somebody waits, or None."""
        if not self.held:
            return None
        raised_s = self.thrash.wake_s
        if not self.idle:
            return raised_s
        given_back_s = next(iter(self.idle.values())) + IDLE_S
        return given_back_s if raised_s is None else min(given_back_s, raised_s)

    def is_due(self, now_s: float) -> bool:
        """Whether there is something to decide."""
        wake_s = self.wake_s
        return self.stale or (wake_s is not None and now_s >= wake_s)

    def hold(self, node: NodeState, at_s: float) -> None:
        """A generation of a run that is not let in yet could start."""
        run = node.run
        if node.held_at_s is None:
            node.held_at_s = at_s
            run.wait(node, at_s)
        run.held[node] = None
        if run not in self.held:
            self.held[run] = False
            self.stale = True

    def let_in(self, run: RunState, at_s: float) -> list[NodeState]:
        """A run begins; its generations that wait."""
        self.held.pop(run, None)
        self.running[run] = None
        self.idle[run] = at_s  # until its generations get there
        run.begin(at_s)
        for role, need in self._needs(run).items():
            if tokens := need.entry_tokens:
                run.footprints.setdefault(role, Footprint(tokens)).committed_tokens = tokens
        waiting, run.held = list(run.held), {}
        return waiting

    def forget(self, run: RunState, node: NodeState | None = None) -> None:
        """A run is over, or a generation of it that waited here."""
        if node is not None:
            run.held.pop(node, None)
            if run.held:
                return
        self.held.pop(run, None)
        if node is None:
            for table in (self.running, self.idle, self.away):
                table.pop(run, None)
        self.stale = bool(self.held)

    def works(self, node: NodeState) -> None:
        """A generation stands with its engine and could run."""
        if node.model in self.rooms and node not in self.working:
            self.working[node] = None
            node.run.working += 1
            self.idle.pop(node.run, None)
            self.away.pop(node.run, None)

    def rests(self, node: NodeState, at_s: float) -> None:
        """A generation is over, or its engine has it no more."""
        if node not in self.working:
            return
        del self.working[node]
        run = node.run
        run.working -= 1
        if not run.working and run in self.running:
            self.idle[run] = at_s

    def settle(self, now_s: float, closed: bool) -> None:
        """What was decided at this instant is done: who has been idle for long is away."""
        self.stale = False
        self.closed = closed
        self.thrash.settle(now_s)
        while self.idle:
            run, since_s = next(iter(self.idle.items()))
            if now_s < since_s + IDLE_S:
                break
            del self.idle[run]
            self.away[run] = None

    def stepped(self, step: StepRecord) -> None:
        """An engine computed a step."""
        if len(self.rooms) == 1 and not self.is_open:
            self.worth.stepped(step)

    def ended(self, ledger: Ledger, lost_tokens: float, at_s: float, again_s: float) -> None:
        """A generation ended.

        Args:
            ledger: What it was.
            lost_tokens: Of its prompt, what its engine had had before and had no more.
            at_s: When.
            again_s: For so long its engine computed what it had had before.
        """
        lowered = self.thrash.note(at_s, again_s)
        known_tokens = ledger.cached_tokens + lost_tokens
        changed = len(self.rooms) == 1 and self.worth.ended(known_tokens, ledger.output_tokens)
        if lowered or changed:
            self.stale = True

    def limit_tokens(self, role: str, now_s: float) -> float:
        """What may be set aside of an engine's memory now."""
        limit_tokens: float = self.rooms[role].limit_tokens
        return limit_tokens * STEP ** self.thrash.steps_at(now_s)

    def committed_tokens(self, role: str, now_s: float) -> float:
        """What is set aside of an engine's memory, or needed where that is more."""
        return sum(self._held_tokens(run, role, now_s) for run in self.running)

    def _held_tokens(self, run: RunState, role: str, now_s: float) -> float:
        footprint = run.footprints.get(role)
        if footprint is None or run in self.away:
            return 0.0
        if run in self.idle and now_s >= self.idle[run] + IDLE_S:
            return 0.0
        return max(footprint.committed_tokens, footprint.context_tokens)

    def look(self, now_s: float, order: Order) -> Admit:
        """Who is let in now, and who has to wait of those that were not told yet."""
        set_aside = {role: self.committed_tokens(role, now_s) for role in self.rooms}
        taken = {role: tokens > 0.0 for role, tokens in set_aside.items()}
        left = {role: self.limit_tokens(role, now_s) - set_aside[role] for role in self.rooms}
        closed = self.worth.holds and (self.closed or min(left.values()) >= 0.0)
        begun: list[RunState] = []
        verdicts: list[AdmissionDecision] = []
        needs = {run: self._needs(run) for run in self.held}
        reserved = self._reserved(now_s) if closed else None
        shadow: Reservation | None = None
        for run in sorted(self.held, key=lambda run: self._place(run, needs[run], now_s, order)):
            why = _fits(needs[run], left, taken) if closed else CHEAP
            if why and reserved is not None and run is not reserved:
                shadow = shadow or self._shadow(reserved, needs, left, begun, now_s)
                why = shadow.passes(run, needs[run], now_s)
            if why or not self.held[run]:
                verdicts.append(self._verdict(run, why, needs[run], left, now_s))
            if why:
                begun.append(run)
                shadow = None
                for role, need in needs[run].items():
                    left[role] -= need.entry_tokens
                    taken[role] |= need.entry_tokens > 0.0
                if run is reserved:
                    reserved = None
        return Admit(tuple(verdicts), now_s, closed)

    def _needs(self, run: RunState) -> dict[str, KvNeed]:
        """By role, what a run that waits needs."""
        return {role: need_of(run, role, room.limit_tokens) for role, room in self.rooms.items()}

    def _place(
        self, run: RunState, needs: Mapping[str, KvNeed], now_s: float, order: Order
    ) -> tuple[PriorityKey, float]:
        node = next(iter(run.held))
        peak = max((need.peak_tokens for need in needs.values()), default=0.0)
        return order.key(
            now_s, InfoUpdates(now_s).info(node, RequestId(node.order)), int(peak)
        ), run.started_at_s

    def _reserved(self, now_s: float) -> RunState | None:
        """The run that waits longest, once it waited long for what it is."""
        for run in self.held:
            node = next(iter(run.held))
            assert node.held_at_s is not None
            long_s = max(RESERVE_AFTER_S, RESERVE_AFTER_PATHS * run.path_p50_s)
            return run if now_s - node.held_at_s > long_s else None
        return None

    def _shadow(
        self,
        reserved: RunState,
        needs: Mapping[RunState, Mapping[str, KvNeed]],
        left: Mapping[str, float],
        begun: list[RunState],
        now_s: float,
    ) -> Reservation:
        """When the reserved run can begin, by what is expected of those that run.

        They are expected to end after the time that nine of ten of their like need; on one of whom
        nothing is known nobody counts.
        """
        free = dict(left)
        entry = {role: need.entry_tokens for role, need in needs[reserved].items()}
        ends = [(run.ends_at_s, run) for run in self.running]
        ends += [(now_s + run.path_p90_s if run.path_p90_s else None, run) for run in begun]
        known = [(at_s, run) for at_s, run in ends if at_s is not None]
        shadow_s = now_s
        for at_s, run in sorted(known, key=lambda end: end[0]):
            if all(entry[role] <= free[role] for role in self.rooms):
                break
            shadow_s = max(now_s, at_s)
            for role in self.rooms:
                free[role] += (
                    needs[run][role].entry_tokens
                    if run in begun
                    else self._held_tokens(run, role, now_s)
                )
        return Reservation(shadow_s, {role: free[role] - entry[role] for role in self.rooms})

    def _verdict(
        self,
        run: RunState,
        why: str,
        needs: Mapping[str, KvNeed],
        left: Mapping[str, float],
        now_s: float,
    ) -> AdmissionDecision:
        node = next(iter(run.held))
        assert node.held_at_s is not None
        terms: list[tuple[str, float]] = [("held_s", now_s - node.held_at_s)]
        lower_tokens = 0.0
        for role, room in self.rooms.items():
            name = "" if len(self.rooms) == 1 else f"{role}."
            limit_tokens = self.limit_tokens(role, now_s)
            lower_tokens = max(lower_tokens, room.limit_tokens - limit_tokens)
            terms += [
                (f"{name}peak_tokens", needs[role].peak_tokens),
                (f"{name}entry_tokens", needs[role].entry_tokens),
                (f"{name}committed_tokens", limit_tokens - left[role]),
                (f"{name}limit_tokens", limit_tokens),
            ]
        reason = why or "the KV memory is set aside for others"
        if lower_tokens:
            terms.append(("computed_again_share", self.thrash.share_at(now_s)))
            reason = why or f"{reason}, and less of it, as contexts are computed again"
        return AdmissionDecision(run.run_id, node.node_id, bool(why), reason, tuple(terms))


def _fits(needs: Mapping[str, KvNeed], left: Mapping[str, float], taken: Mapping[str, bool]) -> str:
    """Why a run can be let in, or "": it fits in each engine, or it has one to itself."""
    alone = in_waves = False
    for role, need in needs.items():
        in_waves |= need.entry_tokens < need.peak_tokens
        if need.entry_tokens > left[role]:
            if taken[role]:
                return ""
            alone = True
    if alone:
        return "nothing else runs"
    return "it fits, its branches in waves" if in_waves else "its peak fits"
