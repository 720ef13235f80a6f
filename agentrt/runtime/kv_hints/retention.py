"""Tells engines what becomes of prefixes that nobody computes on, from what programs still hold.

Costs nothing at engines that take no hints, and little while an engine has room: then it is only
noted what would have to be said, for nothing is given up there. Hints are sent once a turn of the
loop. They change when things are computed, never what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from agentrt.base.ids import NodeId, RunId
from agentrt.program import Gen, Node, ToolWork
from agentrt.protocol.step_output import Ledger, StepDone
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.kv_hints.prefix_liveness import AnsweredPrompt, DeadPrefix, PrefixLiveness
from agentrt.runtime.model_role import ModelRole
from agentrt.scheduler import State
from agentrt.scheduler.retention import ReloadCost, RetentionAdvice, advise_retention, expected_gap
from agentrt.scheduler.runs.run import NodeState

LEAST_TOKENS = 32
"""Shorter prefixes are computed again sooner than anything is said of them."""
ROOM_SHARE = 0.25
"""An engine with so much of its memory free gives nothing up soon."""
FULL_SHARE = 0.05
"""With no more than that to be had, nothing is fetched ahead: others need it."""
MOST_DROPS = 256

Waiting = tuple[RunId, NodeId]


class _Memory:
    """KV memory of one engine as it last told."""

    __slots__ = ("available", "drops", "free", "most", "reloads")

    def __init__(self, engine: ModelRole) -> None:
        self.free = 0
        self.available = 0
        self.most = 0
        self.reloads = ReloadCost() if engine.capabilities.host_kv_tokens else None
        self.drops: deque[DeadPrefix] = deque(maxlen=MOST_DROPS)

    def told(self, done: StepDone) -> None:
        self.free = done.free_pages
        self.available = done.free_pages + done.evictable_pages
        self.most = max(self.most, self.available)

    @property
    def has_room(self) -> bool:
        return self.free > ROOM_SHARE * self.most

    @property
    def is_full(self) -> bool:
        return self.most > 0 and self.available <= FULL_SHARE * self.most


class _Wish:
    """What is to be said of a prefix that waits for somebody.

    Attributes:
        engine: Whose.
        token_ids: The prefix.
        cache_salt: Salt of its run.
        waiting: The node that goes on from it, or the tool whose end its program waits for.
        advice: What to say.
    """

    __slots__ = ("advice", "cache_salt", "engine", "token_ids", "waiting")

    def __init__(
        self, engine: ModelRole, token_ids: tuple[int, ...], cache_salt: str, waiting: Waiting
    ) -> None:
        self.engine = engine
        self.token_ids = token_ids
        self.cache_salt = cache_salt
        self.waiting = waiting
        self.advice: RetentionAdvice | None = None


class KvRetention:
    """See the module.

    Args:
        engines: By role; those that take no hints are told nothing.
        is_on: Whether any is.

    Attributes:
        is_on: Whether anybody listens.
        next_at_s: When it has something to say next without anything happening, or None.
    """

    def __init__(self, engines: Mapping[str, ModelRole], *, is_on: bool = True) -> None:
        self._memories = {
            role: _Memory(engine)
            for role, engine in engines.items()
            if is_on and engine.capabilities.hints and engine.codec is not None
        }
        self.is_on = bool(self._memories)
        self._prefixes = PrefixLiveness()
        self._last: dict[RunId, dict[NodeId | None, AnsweredPrompt]] = {}
        self._new: list[_Wish] = []
        self._wishes: dict[RunId, dict[NodeId, _Wish]] = {}
        self._due: list[_Wish] = []  # those that have not been said
        self._most_due = 64
        self._fetches: list[tuple[float, int, _Wish]] = []
        self._serial = 0

    @property
    def next_at_s(self) -> float | None:
        """When the next prefix has to be on its way back."""
        return self._fetches[0][0] if self._fetches else None

    def stepped(self, role: str, done: StepDone) -> None:
        """An engine told of its memory."""
        memory = self._memories.get(role)
        if memory is not None and done.step is not None:
            memory.told(done)

    def asked(self, live: InFlight) -> None:
        """A prompt was sent, or has grown; with holes it waits for what fills them."""
        if live.engine.role not in self._memories or not _is_told_of(live):
            return
        self._prefixes.asked(live.engine, live.gen.prompt, live.sent_ids, live.cache_salt)
        if live.complete:
            self._wishes.get(live.run_id, {}).pop(live.gen.id, None)
        else:
            waiting = (live.run_id, live.gen.id)
            self._new.append(_Wish(live.engine, live.sent_ids, live.cache_salt, waiting))

    def answered(self, live: InFlight, ledger: Ledger) -> None:
        """A generation has its answer: its program may go on from there."""
        memory = self._memories.get(live.engine.role)
        if memory is None:
            return
        if memory.reloads is not None:
            memory.reloads.note_reload(ledger)
        if not _is_told_of(live):
            return
        made = self._prefixes.answered(
            live.engine, live.gen, live.sent_ids, tuple(live.token_ids), live.cache_salt
        )
        self._last.setdefault(live.run_id, {})[live.gen.scope.owner] = made

    def starts(self, run_id: RunId, node: Node[Any]) -> None:
        """A tool, or a question: its program goes on from its last answer when it has ended."""
        work = node.work
        plan = work.plan if isinstance(work, ToolWork) else None
        known = self._prefixes.answer_of(plan) if isinstance(plan, Gen) else None
        known = known or self._last.get(run_id, {}).get(node.scope.owner)
        if known is not None and known.gen() is not None:
            asked, waiting = known.asked, (run_id, node.id)
            self._new.append(_Wish(asked.engine, known.token_ids, asked.cache_salt, waiting))

    def run_ended(self, run_id: RunId) -> None:
        """Nothing of it waits any more."""
        self._last.pop(run_id, None)
        self._wishes.pop(run_id, None)

    def settle(self, state: State, now_s: float) -> None:
        """Say what is to be said now: once a turn, after everything else was decided."""
        for dead in self._prefixes.take_dead():
            if len(dead.token_ids) - dead.from_tokens >= LEAST_TOKENS:
                self._memories[dead.engine.role].drops.append(dead)
        for wish in self._new:
            self._consider(wish, state, now_s)
        self._new.clear()
        for role, memory in self._memories.items():
            if memory.has_room:
                continue
            self._drop(memory)
            if self._due:
                self._say(role, state, now_s)
        if len(self._due) > self._most_due:
            self._due = [wish for wish in self._due if self._holds(wish, state, now_s)]
            self._most_due = 64 + 2 * len(self._due)
        if self._fetches and self._fetches[0][0] <= now_s:
            self._fetch(state, now_s)

    def _consider(self, wish: _Wish, state: State, now_s: float) -> None:
        """Work out what to say of a prefix, if somebody still waits for something."""
        node = state.node(*wish.waiting)
        if node is None:
            return
        pending = _pending(node)
        if not pending:
            return
        reloads = self._memories[wish.engine.role].reloads
        wish.advice = advise_retention(
            expected_gap(pending, now_s), len(wish.token_ids), reloads, now_s
        )
        run_id, node_id = wish.waiting
        self._wishes.setdefault(run_id, {})[node_id] = wish
        self._due.append(wish)

    def _holds(self, wish: _Wish, state: State, now_s: float) -> bool:
        """Whether it is still to be said: nothing else was, and somebody waits yet."""
        run_id, node_id = wish.waiting
        if self._wishes.get(run_id, {}).get(node_id) is not wish:
            return False
        until_s = wish.advice.until_s if wish.advice is not None else None
        if state.node(run_id, node_id) is None or (until_s is not None and until_s <= now_s):
            del self._wishes[run_id][node_id]
            return False
        return True

    def _drop(self, memory: _Memory) -> None:
        while memory.drops:
            dead = memory.drops.popleft()
            dead.engine.backend.hint(
                dead.token_ids, "drop", from_tokens=dead.from_tokens, cache_salt=dead.cache_salt
            )

    def _say(self, role: str, state: State, now_s: float) -> None:
        """Of prefixes that wait for somebody, as far as that is still so."""
        due, self._due = self._due, []
        for wish in due:
            if wish.engine.role != role:
                self._due.append(wish)
                continue
            advice = wish.advice
            if advice is None or not self._holds(wish, state, now_s):
                continue
            wish.engine.backend.hint(
                wish.token_ids, advice.hint, advice.until_s, cache_salt=wish.cache_salt
            )
            if advice.prefetch_at_s is None:
                self._forget(wish)
            else:
                self._serial += 1
                heappush(self._fetches, (advice.prefetch_at_s, self._serial, wish))

    def _forget(self, wish: _Wish) -> bool:
        """Nothing more is to be said of it; whether something was."""
        run_id, node_id = wish.waiting
        wishes = self._wishes.get(run_id, {})
        if wishes.get(node_id) is not wish:
            return False
        del wishes[node_id]
        return True

    def _fetch(self, state: State, now_s: float) -> None:
        """What was demoted and is needed soon comes back, unless that takes others' room."""
        while self._fetches and self._fetches[0][0] <= now_s:
            wish = heappop(self._fetches)[2]
            waits = self._forget(wish)
            node = state.node(*wish.waiting)
            pending = _pending(node) if waits and node is not None else []
            if not pending:
                continue
            if not self._memories[wish.engine.role].is_full:
                stays = advise_retention(
                    expected_gap(pending, now_s), len(wish.token_ids), None, now_s
                )
                wish.engine.backend.hint(
                    wish.token_ids, "prefetch", stays.until_s, cache_salt=wish.cache_salt
                )


def _is_told_of(live: InFlight) -> bool:
    """Whether the prompt is long enough to say anything of it, and ends with its run."""
    return len(live.sent_ids) >= LEAST_TOKENS and not live.keeps_prefixes


def _pending(node: NodeState) -> list[NodeState]:
    """What a node that goes on from a prefix waits for; a tool is waited for itself."""
    if node.kind == "generate":
        return [source for source in node.inputs if source.status != "ended"]
    return [node]
