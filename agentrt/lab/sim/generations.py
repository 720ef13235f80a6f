"""The generations of simulated programs on their way: sent, filled, joined, stopped, ended.

It is `agentrt.runtime.requests.dispatch` without text. Which requests are alike, whose urgency an
engine
goes by and what each gets of the account is decided by the runtime's own sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.lab.sim.engine import VirtualEngine
from agentrt.lab.sim.held import HeldPrograms
from agentrt.lab.sim.output import Output
from agentrt.lab.sim.program_run import ProgramRun
from agentrt.lab.sim.sending import Said, Sending
from agentrt.lab.sim.token_ids import PromptIds, TokenIds
from agentrt.lab.workloads import TraceCall
from agentrt.protocol.backend import GenerateRequest, HoleFill, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import End
from agentrt.runtime.in_flight.coalescing import CoalescedRequest, Coalescing
from agentrt.runtime.in_flight.ledgers import departed_ledger, joined_ledger
from agentrt.runtime.model_role import ModelRole

Cancel = Callable[[RequestId, float], None]
"""Ends a request at its engine."""


class Generations:
    """Those under way.

    Args:
        engine: That computes them.
        role: The same, as the runtime names it.
        ids: Of the simulation.
        said: What goes to the engine with the next turn.
        programs: What programs hold, and what the engine is told of that.
        cancel: Ends one at the engine, when that hears it.
        shares: Whether like ones are computed once.
    """

    def __init__(
        self,
        engine: VirtualEngine,
        role: ModelRole,
        ids: TokenIds,
        said: Said,
        programs: HeldPrograms,
        cancel: Cancel,
        *,
        shares: bool,
    ) -> None:
        self._engine = engine
        self._role = role
        self._ids = ids
        self._said = said
        self._programs = programs
        self._cancel = cancel
        self._sharing = Coalescing(is_on=shares)
        self._at_engine: dict[RequestId, list[Sending]] = {}  # several if they share one
        self._own: dict[RequestId, Sending] = {}
        self._by_node: dict[tuple[RunId, NodeId], Sending] = {}

    def find(self, run_id: RunId, node_id: NodeId) -> Sending | None:
        """Of a node, if it is under way."""
        return self._by_node.get((run_id, node_id))

    def send(
        self, run: ProgramRun, name: str, info: SchedulingInfo, forced_tokens: int, now_s: float
    ) -> Sending:
        """Hand a call to the engine, with the part of its prompt that is known, or join another."""
        call = run.nodes[name]
        assert isinstance(call, TraceCall)
        node_id, request_id = run.node_id(name), info.request_id
        prompt = PromptIds(self._ids, run.run_id, call, run.outputs)
        known = prompt.known(run.ended)
        output_ids = self._ids.output(run.run_id, name, call.output_tokens)
        sending = Sending(run, name, request_id, prompt, output_ids, self._role)
        sending.sent_ids = known
        self._own[request_id] = self._by_node[run.run_id, node_id] = sending
        self._programs.sent(run, name, request_id, known, whole=prompt.complete)
        request = sending.request = GenerateRequest(
            request_id,
            run.run_id,
            node_id,
            call.site,
            TokenPrompt(known, complete=prompt.complete),
            _sampling(run, call),
            constraint=_form(run, call),
            demanded=info.demanded,
            deadline_at_s=info.deadline_at_s,
            submitted_at_s=now_s,
            info=info,
        )
        if prompt.complete and self._joins(sending, request, now_s):
            return sending
        self._at_engine[request_id] = [sending]
        output = Output(output_ids, forced_tokens, sending.marks, formed=call.forced_tokens > 0)
        self._said.say(lambda at_s: self._engine.submit(request, output, at_s))
        return sending

    def fill(self, sending: Sending, now_s: float) -> bool:
        """Bring a prompt up to date; whether it has become whole."""
        if sending.stopped or sending.prompt.complete:
            return False
        ids = sending.prompt.known(sending.run.ended)
        whole = sending.prompt.complete
        if not ids and not whole:
            return False
        request_id, sending.sent_ids = sending.request_id, sending.sent_ids + ids
        self._programs.filled(request_id, ids, whole=whole)
        if whole and self._joins(sending, _whole(sending), now_s):
            del self._at_engine[request_id]
            self._said.say(lambda at_s: self._cancel(request_id, at_s))
        else:
            self._said.say(
                lambda at_s: self._engine.fill_hole(request_id, HoleFill(ids, whole), at_s)
            )
        return whole

    def update(self, updates: Iterable[SchedulingInfo]) -> None:
        """Tell the engine what has changed for nodes, each by the request that computes it."""
        told: dict[RequestId, SchedulingInfo] = {}
        for one in updates:
            sending = self._own.get(one.request_id)
            if sending is None:
                continue
            sending.info, shared = one, sending.shared
            if shared is not None:
                shared.info_of[one.request_id] = one
                if shared.request_id != one.request_id or len(shared.info_of) > 1:
                    one = shared.merged_info()
            told[one.request_id] = one
        if told:
            self._said.say(lambda _: self._engine.update(tuple(told.values())))

    def stop(self, sending: Sending, now_s: float) -> End | None:
        """Have one end. Where others want the same it leaves at once, with this end."""
        if sending.stopped:
            return None
        sending.stopped = True
        shared = sending.shared
        if shared is None or len(shared.info_of) == 1:
            if shared is not None:
                shared.stopping = True
            request_id = sending.engine_id
            self._said.say(lambda at_s: self._cancel(request_id, at_s))
            return None
        before = shared.merged_info()
        self._forget(sending)
        self._urge(shared, before)
        self._see(sending, shared)
        return End(sending.request_id, "cancelled", departed_ledger(sending.live, now_s))

    def reached(self, request_id: RequestId, tokens: int) -> Iterator[Sending]:
        """Those that get what a request puts out and have a mark at its length now."""
        for one in self._at_engine.get(request_id, ()):
            if one.reaches(tokens):
                yield one

    def ended(self, end: End) -> list[tuple[Sending, End]]:
        """The end of a request for everybody who gets what it gave."""
        found: list[tuple[Sending, End]] = []
        for one in tuple(self._at_engine.get(end.request_id, ())):
            self._forget(one)
            its = end
            if one.joined_at_s is not None:
                ledger = joined_ledger(end.ledger, one.joined_at_s)
                its = replace(end, request_id=one.request_id, ledger=ledger)
            found.append((one, its))
        return found

    def _joins(self, sending: Sending, request: GenerateRequest, now_s: float) -> bool:
        """Whether a like request is under way; else others may join this one from now on."""
        shared = self._sharing.find(request, self._role.role)
        if shared is None:
            sending.shared = self._sharing.open(request, self._role.role)
            if sending.shared is not None:
                sending.shared.add_node(request, sending.info)
            return False
        before, first = shared.merged_info(), self._at_engine[shared.request_id][0]
        sending.shared, sending.joined_at_s = shared, now_s
        self._at_engine[shared.request_id].append(sending)
        shared.add_node(request, sending.info)
        self._urge(shared, before)
        sending.output_ids = first.output_ids
        self._ids.share_output(sending.run.run_id, sending.name, first.output_ids)
        if sending.marks:
            request_id, marks = shared.request_id, sending.marks
            self._said.say(lambda _: self._engine.watch(request_id, marks))
        return True

    def _urge(self, shared: CoalescedRequest, before: SchedulingInfo) -> None:
        """Tell the engine where a request stands now, if that has changed."""
        if shared.info_of and (now := shared.merged_info()) != before:
            self._said.say(lambda _: self._engine.update((now,)))

    def _see(self, sending: Sending, shared: CoalescedRequest) -> None:
        """What one that leaves has got of an output."""
        sequence = self._engine.roster.find(shared.request_id)
        if sequence is not None and sequence.output_tokens:
            sending.token_ids = sending.output_ids[: sequence.output_tokens]
            first_at_s = sequence.metrics.first_token_at_s
            sending.first_token_at_s = max(first_at_s, sending.joined_at_s or 0.0)

    def _forget(self, sending: Sending) -> None:
        """It is over, or its request goes on without it."""
        del self._own[sending.request_id]
        del self._by_node[sending.run.run_id, sending.run.node_id(sending.name)]
        sharing = self._at_engine[sending.engine_id]
        sharing.remove(sending)
        if not sharing:
            del self._at_engine[sending.engine_id]
        if sending.shared is not None:
            self._sharing.leave(sending.shared, sending.request_id)


def _whole(sending: Sending) -> GenerateRequest:
    """What was sent, with all of its prompt."""
    assert sending.request is not None
    return replace(sending.request, prompt=TokenPrompt(sending.sent_ids))


def _sampling(run: ProgramRun, call: TraceCall) -> SamplingParams:
    """As a replay asks: greedily, but for samples of one prompt, which are to differ."""
    seed = run.seeds.get(call.name)
    if seed is None:
        return SamplingParams(max_tokens=call.output_tokens, ignore_eos=True)
    return SamplingParams(
        max_tokens=call.output_tokens, temperature=1.0, top_k=1, seed=seed, ignore_eos=True
    )


def _form(run: ProgramRun, call: TraceCall) -> ConstraintSpec | None:
    """Outputs of one form in all programs of a shape."""
    if not call.forced_tokens:
        return None
    form = f"{run.program.shape}/{call.site}/{call.output_tokens}/{call.forced_tokens}"
    return ConstraintSpec("regex", form)
