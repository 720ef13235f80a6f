"""The only I/O of the loop: carries out the decisions of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from agentrt.base.errors import DeadlineExceeded, NodeCancelled
from agentrt.base.ids import RunId
from agentrt.program import Gen, Node, ToolWork
from agentrt.protocol.events import Event, Scheduled
from agentrt.runtime.completion import failed
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.refused import refused
from agentrt.runtime.requests.dispatch import RequestDispatcher
from agentrt.runtime.run import Run
from agentrt.runtime.tasks.prefill_ahead import PrefillAhead
from agentrt.runtime.tasks.runner import TaskRunner
from agentrt.scheduler import decisions
from agentrt.scheduler.decisions import AdmissionDecision, Decision
from agentrt.scheduler.internal_events import TextYielded


class Effects:
    """Carries out decisions at once; their consequences come back as events."""

    def __init__(
        self,
        runs: Mapping[RunId, Run],
        dispatcher: RequestDispatcher,
        tasks: TaskRunner,
        retention: KvRetention,
        ahead: PrefillAhead,
    ) -> None:
        self._runs = runs
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._retention = retention
        self._ahead = ahead

    def perform(self, decision: Decision) -> list[Event]:
        """Carry out one decision; gives the events that it caused."""
        if isinstance(decision, decisions.Admit):
            return [_admission_event(verdict, decision.at_s) for verdict in decision.decisions]
        if isinstance(decision, decisions.UpdateInfo):
            self._dispatcher.update(decision.model, decision.updates)
            return []
        run = self._runs[decision.run_id]
        node = run.nodes.get(decision.node_id)
        if node is None:  # it has ended since; the scheduler has not seen the event yet
            return []
        match decision:
            case decisions.Send():
                assert isinstance(node, Gen)
                if self._tasks.speculation.is_on:
                    self._tasks.speculation.note_generation(run, node)
                events = self._dispatcher.send(run, node, decision.info, decision.held_s)
                if self._ahead.is_on:
                    request = self._dispatcher.request_of(run, node)
                    if request is not None:
                        self._ahead.note_sent(run, node, request)
                return events
            case decisions.Fill():
                return self._fill(run, node)
            case decisions.Start():
                self._tasks.start(run, node)
                if self._retention.is_on and node.kind != "program":
                    self._retention.note_start(run.run_id, node)
                if self._ahead.is_on:
                    self._ahead.note_start(run, node)
                return []
            case decisions.StopNode(reason=reason):
                error = NodeCancelled(f"{node.label} was cancelled: {reason}", reason=reason)
                return self._stop(run, node, error, reason)
            case decisions.Expire():
                late = DeadlineExceeded(
                    f"{node.label} passed its deadline",
                    progress=run.progress(),
                    holds_content=False,
                )
                return self._stop(run, node, late, "deadline")
            case decisions.Refuse(refusal=refusal):
                return refused(run, node, refusal)
            case _:
                assert_never(decision)

    def fill_readers(self, event: TextYielded) -> list[Event]:
        """Fill the prompts that take the text that a tool yields."""
        run = self._runs.get(event.run_id)
        node = None if run is None else run.nodes.get(event.node_id)
        if run is None or node is None:
            return []
        return self._dispatcher.fill_readers(run, node)

    def _fill(self, run: Run, node: Node[Any]) -> list[Event]:
        if isinstance(node, Gen):
            return self._dispatcher.fill_prompt(run, node)
        work = node.work
        if isinstance(work, ToolWork) and work.plan is not None and work.plan.error is not None:
            reason = f"{work.plan.label} did not finish"
            error = NodeCancelled(f"{node.label} never started: {reason}", reason=reason)
            return [failed(run, node, error)]
        return []

    def _stop(self, run: Run, node: Node[Any], error: Exception, reason: str) -> list[Event]:
        """End a node: at once if it has no task and no request, else when these have ended."""
        task = run.tasks.get(node.id)
        if task is not None:
            task.stop(error)
            return []
        request = self._dispatcher.request_of(run, node) if isinstance(node, Gen) else None
        if request is not None:
            self._dispatcher.stop(request, error, reason)
            return []
        return [failed(run, node, error)]


def _admission_event(verdict: AdmissionDecision, at_s: float) -> Scheduled:
    return Scheduled(
        verdict.run_id,
        verdict.node_id,
        at_s,
        "admitted" if verdict.admitted else "held",
        verdict.reason,
        terms=verdict.terms,
    )
