"""KV retention: hints to engines about prefixes that programs still hold, or no longer do.

An engine that takes no hints costs nothing, and one with free memory little: it evicts nothing, so
hints are only prepared. They are sent once a turn of the loop. They change when things are
computed, never what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from agentrt.base.ids import NodeId, RunId
from agentrt.program import Gen, Node, ToolWork
from agentrt.protocol.backend import PrefixHint
from agentrt.protocol.step_output import Ledger, StepDone
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.kv_hints.prefix_liveness import AnsweredPrompt, DeadPrefix, PrefixLiveness
from agentrt.runtime.model_role import ModelRole
from agentrt.scheduler import State
from agentrt.scheduler.retention import ReloadCost, RetentionAdvice, advise_retention, expected_gap
from agentrt.scheduler.runs.run import NodeState

LEAST_TOKENS = 32
"""A shorter prefix is computed anew sooner than a hint about it is sent."""
ROOM_SHARE = 0.25
"""An engine with this share of its KV memory free evicts nothing soon."""
FULL_SHARE = 0.05
"""An engine with at most this share free or evictable has none to prefetch into."""
MOST_DROPS = 256

Waiting = tuple[RunId, NodeId]


@dataclass(slots=True, eq=False)
class _EngineMemory:
    """KV memory of one engine as of its last step."""

    reloads: ReloadCost | None
    free_pages: int = 0
    available_pages: int = 0
    most_pages: int = 0
    drops: deque[DeadPrefix] = field(default_factory=lambda: deque(maxlen=MOST_DROPS))

    def note_step(self, step: StepDone) -> None:
        self.free_pages = step.free_pages
        self.available_pages = step.free_pages + step.evictable_pages
        self.most_pages = max(self.most_pages, self.available_pages)

    @property
    def has_room(self) -> bool:
        return self.free_pages > ROOM_SHARE * self.most_pages

    @property
    def is_full(self) -> bool:
        return self.most_pages > 0 and self.available_pages <= FULL_SHARE * self.most_pages


@dataclass(slots=True, eq=False)
class _AwaitedPrefix:
    """A prefix that a program will continue, and the hint about it.

    Attributes:
        engine: Engine that holds it.
        token_ids: The prefix.
        cache_salt: Salt of its run.
        waiting: The node that continues it, or the tool that the program awaits before it does.
        advice: The hint.
    """

    engine: ModelRole
    token_ids: tuple[int, ...]
    cache_salt: str
    waiting: Waiting
    advice: RetentionAdvice | None = None


class KvRetention:
    """Sends hints about prefixes to the engines of a runtime.

    Args:
        engines: Engines by role; those that take no hints get none.
        is_on: Whether hints are sent at all.

    Attributes:
        is_on: Whether any engine takes hints.
    """

    def __init__(self, engines: Mapping[str, ModelRole], *, is_on: bool = True) -> None:
        self._memories = {
            role: _EngineMemory(ReloadCost() if engine.capabilities.host_kv_tokens else None)
            for role, engine in engines.items()
            if is_on and engine.capabilities.hints and engine.codec is not None
        }
        self.is_on = bool(self._memories)
        self._prefixes = PrefixLiveness()
        self._last_answers: dict[RunId, dict[NodeId | None, AnsweredPrompt]] = {}
        self._new: list[_AwaitedPrefix] = []
        self._awaited: dict[RunId, dict[NodeId, _AwaitedPrefix]] = {}
        self._due: list[_AwaitedPrefix] = []  # their hints have not been sent
        self._most_due = 64
        self._prefetches: list[tuple[float, int, _AwaitedPrefix]] = []
        self._serial = 0

    @property
    def next_at_s(self) -> float | None:
        """When the next prefix has to be prefetched, or None."""
        return self._prefetches[0][0] if self._prefetches else None

    def note_memory(self, role: str, step: StepDone) -> None:
        """Note the KV memory that an engine has after a step."""
        memory = self._memories.get(role)
        if memory is not None and step.step is not None:
            memory.note_step(step)

    def note_prompt(self, request: InFlight) -> None:
        """Note a prompt that was sent or has grown; with holes it waits for their values."""
        if request.engine.role not in self._memories or not _is_hinted(request):
            return
        engine, prompt_ids, salt = request.engine, request.prompt_ids, request.cache_salt
        run_id, node_id = waiting = request.run.run_id, request.gen.id
        self._prefixes.note_prompt(engine, request.gen.prompt, prompt_ids, salt)
        if request.prompt_complete:
            self._awaited.get(run_id, {}).pop(node_id, None)
        else:
            self._new.append(_AwaitedPrefix(engine, prompt_ids, salt, waiting))

    def note_answer(self, request: InFlight, ledger: Ledger) -> None:
        """Note an answer, which the program may continue."""
        memory, gen = self._memories.get(request.engine.role), request.gen
        if memory is None:
            return
        if memory.reloads is not None:
            memory.reloads.note_reload(ledger)
        if not _is_hinted(request):
            return
        output_ids = tuple(request.output_ids)
        answer = self._prefixes.note_answer(
            request.engine, gen, request.prompt_ids, output_ids, request.cache_salt
        )
        self._last_answers.setdefault(request.run.run_id, {})[gen.scope.owner] = answer

    def note_start(self, run_id: RunId, node: Node[Any]) -> None:
        """Note that a tool or a question begins: its end lets the program continue its answer."""
        work = node.work
        plan = work.plan if isinstance(work, ToolWork) else None
        answer = self._prefixes.answer_of(plan) if isinstance(plan, Gen) else None
        answer = answer or self._last_answers.get(run_id, {}).get(node.scope.owner)
        if answer is not None and answer.gen() is not None:
            prompt, waiting = answer.prompt, (run_id, node.id)
            prefix = _AwaitedPrefix(prompt.engine, answer.token_ids, prompt.cache_salt, waiting)
            self._new.append(prefix)

    def forget_run(self, run_id: RunId) -> None:
        """Drop what was noted of a run that has ended."""
        self._last_answers.pop(run_id, None)
        self._awaited.pop(run_id, None)

    def send_hints(self, state: State, now_s: float) -> None:
        """Send the hints that are due: once a turn, after everything else was decided."""
        for dead in self._prefixes.pop_dead():
            if len(dead.token_ids) - dead.from_tokens >= LEAST_TOKENS:
                self._memories[dead.engine.role].drops.append(dead)
        for prefix in self._new:
            self._advise(prefix, state, now_s)
        self._new.clear()
        for role, memory in self._memories.items():
            if memory.has_room:
                continue
            self._send_drops(memory)
            if self._due:
                self._send_due(role, state, now_s)
        if len(self._due) > self._most_due:
            self._due = [one for one in self._due if self._is_awaited(one, state, now_s)]
            self._most_due = 64 + 2 * len(self._due)
        if self._prefetches and self._prefetches[0][0] <= now_s:
            self._prefetch(state, now_s)

    def _advise(self, prefix: _AwaitedPrefix, state: State, now_s: float) -> None:
        """Choose the hint for a prefix, if its program still waits for something."""
        node = state.node(*prefix.waiting)
        pending = _pending(node) if node is not None else []
        if not pending:
            return
        reloads = self._memories[prefix.engine.role].reloads
        prefix.advice = advise_retention(
            expected_gap(pending, now_s), len(prefix.token_ids), reloads, now_s
        )
        run_id, node_id = prefix.waiting
        self._awaited.setdefault(run_id, {})[node_id] = prefix
        self._due.append(prefix)

    def _is_awaited(self, prefix: _AwaitedPrefix, state: State, now_s: float) -> bool:
        """Whether the hint still applies: no later one replaced it, and the node still waits."""
        run_id, node_id = prefix.waiting
        if self._awaited.get(run_id, {}).get(node_id) is not prefix:
            return False
        until_s = prefix.advice.until_s if prefix.advice is not None else None
        if state.node(run_id, node_id) is None or (until_s is not None and until_s <= now_s):
            del self._awaited[run_id][node_id]
            return False
        return True

    def _send_drops(self, memory: _EngineMemory) -> None:
        while memory.drops:
            dead = memory.drops.popleft()
            dead.engine.backend.hint(
                PrefixHint(
                    dead.token_ids,
                    "drop",
                    from_tokens=dead.from_tokens,
                    cache_salt=dead.cache_salt,
                    adapter=dead.engine.adapter,
                )
            )

    def _send_due(self, role: str, state: State, now_s: float) -> None:
        """Send the hints of one engine about prefixes that are still awaited."""
        due, self._due = self._due, []
        for prefix in due:
            if prefix.engine.role != role:
                self._due.append(prefix)
                continue
            advice = prefix.advice
            if advice is None or not self._is_awaited(prefix, state, now_s):
                continue
            prefix.engine.backend.hint(
                PrefixHint(
                    prefix.token_ids,
                    advice.hint,
                    advice.until_s,
                    cache_salt=prefix.cache_salt,
                    adapter=prefix.engine.adapter,
                )
            )
            if advice.prefetch_at_s is None:
                self._drop_awaited(prefix)
            else:
                self._serial += 1
                heappush(self._prefetches, (advice.prefetch_at_s, self._serial, prefix))

    def _drop_awaited(self, prefix: _AwaitedPrefix) -> bool:
        """Send no more hints about a prefix; whether one was still to be sent."""
        run_id, node_id = prefix.waiting
        awaited = self._awaited.get(run_id, {})
        if awaited.get(node_id) is not prefix:
            return False
        del awaited[node_id]
        return True

    def _prefetch(self, state: State, now_s: float) -> None:
        """Bring demoted prefixes back that are needed soon, unless the memory is full."""
        while self._prefetches and self._prefetches[0][0] <= now_s:
            prefix = heappop(self._prefetches)[2]
            is_awaited = self._drop_awaited(prefix)
            node = state.node(*prefix.waiting)
            pending = _pending(node) if is_awaited and node is not None else []
            if pending and not self._memories[prefix.engine.role].is_full:
                stays = advise_retention(
                    expected_gap(pending, now_s), len(prefix.token_ids), None, now_s
                )
                prefix.engine.backend.hint(
                    PrefixHint(
                        prefix.token_ids,
                        "prefetch",
                        stays.until_s,
                        cache_salt=prefix.cache_salt,
                        adapter=prefix.engine.adapter,
                    )
                )


def _is_hinted(request: InFlight) -> bool:
    """Whether the prompt is long enough for hints, and of no use after its run."""
    return len(request.prompt_ids) >= LEAST_TOKENS and not request.run.options.keeps_prefixes


def _pending(node: NodeState) -> list[NodeState]:
    """The nodes that end before a prefix is continued: inputs of a generation, or a tool."""
    if node.kind == "generate":
        return [source for source in node.inputs if source.status != "ended"]
    return [node]
