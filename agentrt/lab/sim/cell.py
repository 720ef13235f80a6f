"""A runtime and its engine in virtual time: the loop of `agentrt.runtime` over simulated programs.

Facts are applied to the production state, production `decide` says what follows, and this module
carries it out: requests reach the engine after what the runtime takes for them, tools and people
take what the trace says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush
from typing import assert_never

from agentrt.base.errors import InternalError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.engine import VirtualEngine
from agentrt.lab.sim.flight import Flight
from agentrt.lab.sim.generations import Generations
from agentrt.lab.sim.held import HeldPrograms
from agentrt.lab.sim.outcome import ProgramOutcome, Totals
from agentrt.lab.sim.program_run import MODEL, ProgramRun
from agentrt.lab.sim.sending import Act, Said, Sending
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.workloads import ProgramTrace, TraceCall
from agentrt.program.scope import sooner
from agentrt.protocol.backend import SchedulingInfo
from agentrt.protocol.events import (
    HoleFilled,
    NodeFinished,
    Outcome,
    RequestSent,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import End, StepDone
from agentrt.runtime.model_role import ModelRole
from agentrt.scheduler import (
    Admit,
    Decision,
    Expire,
    Fill,
    InternalEvent,
    Performed,
    Refuse,
    Send,
    Start,
    State,
    StopNode,
    UpdateInfo,
    apply,
    decide,
)

At = Callable[[float, Act], None]
"""Do something at an instant."""


class Cell:
    """One runtime with one engine.

    Args:
        state: Of its scheduler.
        engine: It.
        costs: What stands between both; others hold for what begins after they were set.
        ids: Of the simulation.
        at: Puts something on the simulation's agenda.
        said: What goes to the engine with the next turn.
        programs: What programs hold, and what the engine is told of that.
        role: The engine as the runtime names it.

    Attributes:
        live: Runs that are not over.
        totals: What the engine did.
    """

    def __init__(
        self,
        state: State,
        engine: VirtualEngine,
        costs: SimCosts,
        ids: TokenIds,
        at: At,
        said: Said,
        programs: HeldPrograms,
        role: ModelRole,
    ) -> None:
        self.state = state
        self.engine = engine
        self.live: dict[RunId, ProgramRun] = {}
        self.totals = Totals()
        self.costs = costs
        self._ids = ids
        self._agenda = at
        self._due: list[float] = []
        self._wake_s: float | None = None
        self._outcomes: dict[RunId, ProgramOutcome] = {}
        self._generations = Generations(
            engine, role, ids, said, programs, self._cancel, shares=state.config.share_nodes
        )
        self._tools: set[tuple[RunId, NodeId]] = set()
        self._flight: Flight | None = None
        self._said = said
        self._programs = programs
        self._free_at_s = 0.0

    def arrive(self, program: ProgramTrace, run_id: RunId, now_s: float) -> ProgramOutcome:
        """Somebody wants a program."""
        service_s = service_of(program, self.costs.step)
        run = self.live[run_id] = ProgramRun(run_id, program, service_s)
        outcome = self._outcomes[run_id] = ProgramOutcome(
            program.name, program.shape, program.tenant, now_s
        )
        self._handle(run.begin(now_s), now_s)
        return outcome

    def go(self, now_s: float, until_s: float) -> None:
        """Start the engine's next step, if it has anything to do.

        Args:
            now_s: When.
            until_s: Before that instant nothing comes from outside.
        """
        if self._flight is not None:
            return
        if self._due:
            until_s = min(until_s, self._due[0])
        flight = self._flight = self.engine.launch(now_s, until_s)
        if flight is not None:
            self._at(flight.ended_at_s, self._land)

    def _at(self, at_s: float, act: Callable[[float], None]) -> None:
        heappush(self._due, at_s)

        def due(now_s: float) -> None:
            heappop(self._due)
            act(now_s)

        self._agenda(at_s, due)

    def _land(self, now_s: float) -> None:
        flight, self._flight = self._flight, None
        assert flight is not None
        landing = self.engine.land(flight)
        self._sum_up(flight)
        told: list[tuple[Sending, int]] = []
        for request_id, tokens in landing.grown:
            told += [(one, tokens) for one in self._generations.reached(request_id, tokens)]
        *before, last = landing.steps
        for done in before:
            self._handle((done,), now_s)
        reads_s = self.costs.tell_s + self.costs.delta_s * len(flight.members)
        for record in flight.records[:-1]:
            self._busy(record.ended_at_s, reads_s)
        if last.ends or told:
            self._tell(last, told, now_s, reads_s)
        else:
            self._busy(now_s, reads_s)
            self._handle((last,), now_s)

    def _tell(
        self, done: StepDone, told: list[tuple[Sending, int]], now_s: float, reads_s: float = 0.0
    ) -> None:
        """The runtime gets to know, when its thread has nothing else to do and has read it."""
        begins_s = now_s + max(0.0, self.costs.deliver_s - reads_s)
        at_s = self._busy(begins_s, reads_s + self.costs.close_s * len(done.ends))
        self._at(at_s, lambda at_s: self._deliver(done, told, at_s))

    def _busy(self, now_s: float, seconds: float) -> float:
        """The runtime's one thread does something; when it is done with it."""
        self._free_at_s = max(now_s, self._free_at_s) + seconds
        return self._free_at_s

    def _sum_up(self, flight: Flight) -> None:
        totals = self.totals
        totals.unread_tokens = self.engine.unread_tokens
        totals.unheard_tokens = self.engine.unheard_tokens
        totals.copied_s = self.engine.copied_s
        totals.saved_tokens, totals.loaded_tokens = self.engine.copied_tokens
        for record in flight.records:
            totals.steps += 1
            totals.busy_s += record.ended_at_s - record.started_at_s
            totals.prefill_tokens += record.prefill_tokens
            totals.decode_tokens += record.decode_tokens
            totals.kv_tokens += record.kv_tokens

    def _deliver(self, done: StepDone, told: list[tuple[Sending, int]], now_s: float) -> None:
        facts: list[InternalEvent] = [done]
        for sending, tokens in told:
            sending.run.reached(sending.name, tokens)
        runs = {sending.run.run_id: sending.run for sending, _ in told}
        for end in done.ends:
            for ended, its in self._generations.ended(end):
                runs[ended.run.run_id] = ended.run
                facts.append(self._ended(ended, its, now_s))
        for run in runs.values():
            facts += run.more(now_s)
        self._handle(facts, now_s)
        for run in runs.values():
            self._close(run, now_s)

    def _ended(self, sending: Sending, end: End, now_s: float) -> NodeFinished:
        run, name = sending.run, sending.name
        wanted = end.reason == "length"
        outcome = self._outcomes[run.run_id]
        outcome.book(end.ledger, wanted=wanted, joined=sending.joined_at_s is not None)
        if wanted:
            outcome.answered(run.declared_at_s[name], end.ledger.first_token_at_s, now_s)
        return self._finished(run, name, now_s, wanted=wanted, end=end)

    def _finished(
        self, run: ProgramRun, name: str, now_s: float, *, wanted: bool, end: End | None = None
    ) -> NodeFinished:
        outcome: Outcome = "ok" if wanted else "cancelled"
        if wanted:
            run.node_ended(name)
        else:
            run.node_given_up(name)
        heard = wanted and end is not None
        ids = self._ids.output(run.run_id, name, run.outputs[name]) if heard else range(0)
        self._programs.ended(run, name, end, ids, wanted=wanted)
        return NodeFinished(
            run.run_id,
            run.node_id(name),
            outcome,
            now_s,
            ledger=end.ledger if end is not None else None,
            finish_reason=end.reason if end is not None else "",
        )

    def _close(self, run: ProgramRun, now_s: float) -> None:
        """The run is over once its result is there and nothing is under way."""
        if run.run_id not in self.live or not run.is_over:
            return
        del self.live[run.run_id]
        self._programs.closed(run)
        self._outcomes.pop(run.run_id).end(now_s + self.costs.end_s)
        self._ids.forget(run.run_id, run.program)
        self._handle((NodeFinished(run.run_id, run.root, "ok", now_s), run.finish(now_s)), now_s)

    def _handle(self, facts: Iterable[InternalEvent], now_s: float) -> None:
        """A batch of the loop."""
        state = self.state
        for fact in facts:
            apply(state, fact)
            if isinstance(fact, StepDone):
                self._programs.stepped(fact)
        while decisions := decide(state, now_s):
            for decision in decisions:
                for fact in self._perform(decision, now_s):
                    apply(state, fact)
                apply(state, Performed(decision))
        self._programs.settle(state, now_s)
        self._flush(now_s)
        wake_s = sooner(state.next_deadline_s(), self._programs.next_at_s)
        if wake_s is not None and wake_s != self._wake_s:
            self._wake_s = wake_s
            self._at(wake_s, lambda at_s: self._handle((), at_s))

    def _perform(self, decision: Decision, now_s: float) -> Iterable[InternalEvent]:
        match decision:
            case UpdateInfo(updates=updates):
                self._generations.update(self._known(one) for one in updates)
                return ()
            case Admit():  # its runs are sent next
                return ()
            case Refuse():
                raise InternalError("a program without a deadline was refused")
            case Send():
                return self._send(decision, now_s)
            case Fill():
                return self._fill(decision, now_s)
            case Start():
                return self._start(decision, now_s)
            case StopNode() | Expire():
                return self._stop(decision, now_s)
            case _:
                assert_never(decision)

    def _flush(self, now_s: float) -> None:
        """What was said in a turn reaches the engine at once, when the thread is through."""
        acts = self._said.take()
        if not acts:
            return

        def hear(at_s: float) -> None:
            for act in acts:
                act(at_s)

        self._at(max(now_s, self._free_at_s) + self.costs.submit_s, hear)

    def _known(self, info: SchedulingInfo) -> SchedulingInfo:
        """The scheduling info of a request, with what its run really needs."""
        run = self.live.get(info.run_id)
        return info if run is None else replace(info, true_rest_s=run.true_rest_s)

    def _send(self, decision: Send, now_s: float) -> Iterable[InternalEvent]:
        run = self.live[decision.run_id]
        name = run.name_of(decision.node_id)
        call = run.nodes[name]
        assert isinstance(call, TraceCall)
        costs = self.costs
        self._outcomes[run.run_id].held_s += decision.held_s
        self._busy(now_s, costs.call_s + costs.call_token_s * run.spell(call))
        info = self._known(decision.info)
        forced_tokens = round(call.forced_tokens * costs.jump_share)
        sending = self._generations.send(run, name, info, forced_tokens, now_s)
        yield RequestSent(
            run.run_id,
            decision.node_id,
            sending.request_id,
            "simulated",
            MODEL,
            sending.prompt.complete,
            now_s,
            decision.held_s,
            len(sending.sent_ids),
        )

    def _fill(self, decision: Fill, now_s: float) -> Iterable[InternalEvent]:
        sending = self._generations.find(decision.run_id, decision.node_id)
        if sending is None:
            return
        known_tokens = len(sending.sent_ids)
        whole = self._generations.fill(sending, now_s)
        more_tokens = len(sending.sent_ids) - known_tokens
        if whole or more_tokens:
            self._busy(now_s, self.costs.call_s + self.costs.call_token_s * more_tokens)
        if whole:
            yield HoleFilled(decision.run_id, decision.node_id, now_s)

    def _start(self, decision: Start, now_s: float) -> Iterable[InternalEvent]:
        run = self.live[decision.run_id]
        if decision.node_id == run.root:
            at_s = now_s + self.costs.run_s
            self._at(at_s, lambda at_s: self._handle(run.more(at_s), at_s))
            return
        name = run.name_of(decision.node_id)
        node = run.nodes[name]
        assert not isinstance(node, TraceCall)
        key = (run.run_id, decision.node_id)
        self._tools.add(key)
        self._programs.began(run, name)
        self._outcomes[run.run_id].tool_s += node.seconds
        took_s = node.seconds + self.costs.tool_s
        self._at(now_s + took_s, lambda at_s: self._tool_ended(run, name, at_s))
        yield ToolStarted(run.run_id, decision.node_id, 0, now_s)

    def _tool_ended(self, run: ProgramRun, name: str, now_s: float) -> None:
        key = (run.run_id, run.node_id(name))
        if key not in self._tools:
            return  # it was given up
        self._tools.remove(key)
        facts: list[InternalEvent] = [
            ToolEnded(run.run_id, key[1], 0, now_s),
            self._finished(run, name, now_s, wanted=True),
        ]
        self._handle([*facts, *run.more(now_s)], now_s)
        self._close(run, now_s)

    def _stop(self, decision: StopNode | Expire, now_s: float) -> Iterable[InternalEvent]:
        run = self.live[decision.run_id]
        name = run.name_of(decision.node_id)
        sending = self._generations.find(run.run_id, decision.node_id)
        if sending is not None:
            left = self._generations.stop(sending, now_s)
            if left is None:
                return
            yield self._ended(sending, left, now_s)
        else:
            self._tools.discard((run.run_id, decision.node_id))
            yield self._finished(run, name, now_s, wanted=False)
        self._at(now_s, lambda at_s: self._close(run, at_s))

    def _cancel(self, request_id: RequestId, now_s: float) -> None:
        self.engine.cancel(request_id, now_s)
        done = self.engine.take_ends()
        if done is not None:
            self._tell(done, [], now_s)
