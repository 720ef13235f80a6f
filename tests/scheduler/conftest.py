"""A world for the scheduler: runs of one generation after another, on an engine of endless speed.

Every generation takes the seconds and the tokens that its run says. Decisions are carried out at
once; time jumps from one event to the next.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from agentrt.base.config import SchedulerConfig
from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolStarted,
)
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler import (
    Admit,
    Decision,
    Estimates,
    InternalEvent,
    Refuse,
    Send,
    Start,
    State,
    apply,
    decide,
    site_of,
)
from agentrt.scheduler.admission.kv_need import engine_site
from agentrt.scheduler.runs.run import template_of

OUTPUT = 128
"""Tokens that every generation puts out."""


@dataclass
class Job:
    """A run: when it comes, what its generations take, what it needs of the memory at once.

    Attributes:
        gap_s: A tool between two of its generations takes so long; 0 has none.
        declares: Whether its generations tell how long their prompts are and outputs may be.
        true_service_s: Service that a replay knows it to need.
        true_kv_tokens: Peak of its KV that a replay knows.
    """

    at_s: float
    took_s: tuple[float, ...] = (1.0,)
    tokens: int = 0
    template: str = "p"
    tenant: str = ""
    deadline_s: float | None = None
    gap_s: float = 0.0
    priority: int = 0
    began_at_s: float | None = None
    ended_at_s: float | None = None
    refused: bool = False
    next: int = 0
    declares: bool = False
    true_service_s: float | None = None
    true_kv_tokens: float | None = None


@dataclass
class World:
    """Jobs, the state, and what was decided."""

    state: State
    jobs: list[Job] = field(default_factory=list)
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    before: Callable[["World", Decision, float], None] | None = None
    decide: Callable[[State, float], tuple[Decision, ...]] = decide
    now_s: float = 0.0
    agenda: list[tuple[float, int, list[InternalEvent]]] = field(default_factory=list)
    serial: Any = field(default_factory=count)

    def run(self, jobs: Sequence[Job], until_s: float = 1e9) -> None:
        """All of them, to their ends."""
        self.jobs = list(jobs)
        for number, job in enumerate(jobs):
            run_id = self.run_id(number)
            program = NodeDeclared(
                run_id, NodeId("r"), "program", job.template, None, (), "p.py:1", job.at_s
            )
            started = RunStarted(
                run_id,
                job.template,
                "p.py",
                job.at_s,
                0,
                job.deadline_s,
                tenant=job.tenant,
                priority=job.priority,
                true_service_s=job.true_service_s,
                true_kv_tokens=job.true_kv_tokens,
            )
            self.at(job.at_s, started, program, NodeDemanded(run_id, NodeId("r"), job.at_s))
        while True:
            wake_s = self.state.next_deadline_s()
            due = [
                at for at in (wake_s, self.agenda[0][0] if self.agenda else None) if at is not None
            ]
            if not due or min(due) > until_s:
                return
            self.now_s = max(self.now_s, min(due))
            facts: list[InternalEvent] = []
            while self.agenda and self.agenda[0][0] <= self.now_s:
                facts += heapq.heappop(self.agenda)[2]
            self.handle(facts)

    def handle(self, facts: Sequence[InternalEvent]) -> None:
        for fact in facts:
            apply(self.state, fact)
        while decisions := self.decide(self.state, self.now_s):
            for decision in decisions:
                if self.before is not None:
                    self.before(self, decision, self.now_s)
                self.decisions.append((self.now_s, decision))
                for fact in self.perform(decision):
                    apply(self.state, fact)
                apply(self.state, decision)

    def perform(self, decision: Decision) -> list[InternalEvent]:
        if isinstance(decision, Refuse):
            job = self.jobs[self.number(decision.run_id)]
            job.refused, job.ended_at_s = True, self.now_s
            return [
                NodeFinished(decision.run_id, decision.node_id, "failed", self.now_s),
                RunFinished(decision.run_id, "failed", self.now_s),
            ]
        if isinstance(decision, Start) and decision.node_id == "r":
            self.more(decision.run_id)
        elif isinstance(decision, Start):
            job = self.jobs[self.number(decision.run_id)]
            end_s = self.now_s + job.gap_s
            self.at(end_s, NodeFinished(decision.run_id, decision.node_id, "ok", end_s))
            self.agenda[-1][2].append(NodeDemanded(decision.run_id, NodeId("r"), end_s))
            self.later(end_s, decision.run_id)
            return [ToolStarted(decision.run_id, decision.node_id, 0, self.now_s)]
        elif isinstance(decision, Send):
            return [self.send(decision)]
        return []

    def send(self, decision: Send) -> RequestSent:
        run_id, node_id = decision.run_id, decision.node_id
        job = self.jobs[self.number(run_id)]
        job.began_at_s = self.now_s if job.began_at_s is None else job.began_at_s
        took_s = job.took_s[job.next - 1]
        prompt_tokens = max(0, job.tokens - OUTPUT)
        end_s = self.now_s + took_s
        ledger = Ledger(
            admitted_at_s=self.now_s,
            finished_at_s=end_s,
            decode_s=took_s,
            prompt_tokens=prompt_tokens,
            output_tokens=OUTPUT,
            steps=OUTPUT,
            batch_size_sum=OUTPUT,
        )
        self.at(end_s, NodeFinished(run_id, node_id, "ok", end_s, ledger=ledger))
        self.later(end_s, run_id, gap=job.gap_s > 0)
        return RequestSent(
            run_id,
            node_id,
            decision.info.request_id,
            "world",
            "m",
            True,
            self.now_s,
            decision.held_s,
            prompt_tokens,
        )

    def later(self, at_s: float, run_id: RunId, *, gap: bool = False) -> None:
        """The program goes on then."""
        job = self.jobs[self.number(run_id)]
        if gap and job.next < len(job.took_s):
            node = NodeId(f"r/tool{job.next}")
            tool = NodeDeclared(run_id, node, "tool", "tool", NodeId("r"), (), "p.py:9", at_s)
            self.at(at_s, tool)
        elif job.next < len(job.took_s):
            self.at(at_s, self.declared(run_id, at_s))
        else:
            job.ended_at_s = at_s
            self.at(
                at_s,
                NodeFinished(run_id, NodeId("r"), "ok", at_s),
                RunFinished(run_id, "ok", at_s),
            )

    def more(self, run_id: RunId) -> None:
        self.at(self.now_s, self.declared(run_id, self.now_s))

    def declared(self, run_id: RunId, at_s: float) -> NodeDeclared:
        job = self.jobs[self.number(run_id)]
        job.next += 1
        return NodeDeclared(
            run_id,
            NodeId(f"r/g{job.next}"),
            "generate",
            "gen",
            NodeId("r"),
            (),
            f"p.py:{job.next + 1}",
            at_s,
            model="default",
            after=NodeId(f"r/g{job.next - 1}") if job.next > 1 else None,
            prompt_tokens=max(0, job.tokens - OUTPUT) if job.declares else 0,
            max_tokens=OUTPUT if job.declares else 0,
        )

    def at(self, at_s: float, *facts: InternalEvent) -> None:
        heapq.heappush(self.agenda, (at_s, next(self.serial), list(facts)))

    def admissions(self) -> list[tuple[float, Any]]:
        return [
            (at_s, v) for at_s, d in self.decisions if isinstance(d, Admit) for v in d.decisions
        ]

    @staticmethod
    def run_id(number: int) -> RunId:
        return RunId(f"{number:016x}")

    @staticmethod
    def number(run_id: RunId) -> int:
        return int(run_id, 16)


@pytest.fixture(scope="session")
def world() -> Callable[..., World]:
    """Makes a world: `world(kv_tokens=1000, known=jobs)` knows what such jobs take."""

    def make(
        kv_tokens: int = 0,
        known: Sequence[Job] = (),
        host_kv_tokens: int = 0,
        past: int = 10,
        **config: Any,
    ) -> World:
        table = Estimates()
        for job in {job.template: job for job in known}.values():
            template = template_of(job.template, "p.py")
            for _ in range(past):
                peak = table.site(template, engine_site("default"))
                peak.observe("context_tokens", job.tokens)
                root = table.site(template, site_of(job.template, "p.py:1"), 0)
                root.observe("path_s", sum(job.took_s))
                root.observe("rest_s", sum(job.took_s))
        state = State(
            config=SchedulerConfig(**config),
            estimates=table,
            kv_tokens={"default": (kv_tokens, host_kv_tokens)},
        )
        return World(state)

    return make


@pytest.fixture(scope="session")
def job() -> type[Job]:
    """The class of jobs."""
    return Job
