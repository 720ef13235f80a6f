"""The code of one simulated program: what it declares, and when.

It behaves as a program of ours would that has this graph. A generation is declared when everything
that it quotes is declared and what it comes after has ended: parts that are pending are holes. A
tool that a plan calls is declared when its arguments are complete in the plan's output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentrt.base.ids import NodeId, RunId
from agentrt.lab.workloads import Message, OutputOf, ProgramTrace, ToolUse, TraceCall, TraceThink
from agentrt.lab.workloads.trace import Part, TraceNode, needs, parts, seeds
from agentrt.protocol.events import NodeDeclared, NodeDemanded, RunFinished, RunStarted
from agentrt.scheduler import CancelRequested, InternalEvent

_UNIX_NS = 1_600_000_000_000_000_000
MODEL = "default"


class ProgramRun:
    """One run of a trace.

    Args:
        run_id: Of the run.
        program: What it runs.
        service_s: What each call will need of its engine.

    Attributes:
        run_id: Of the run.
        program: What it runs.
        nodes: By name.
        declared: Names of nodes that the scheduler knows.
        declared_at_s: Since when.
        ended: Names of nodes whose values are there.
        given_up: Names of nodes that the program does without.
        closed: Names of nodes that are over, with a value or without.
        seeds: Of calls that are samples of one prompt.
        outputs: Lengths, by call.
    """

    def __init__(
        self, run_id: RunId, program: ProgramTrace, service_s: Mapping[str, float]
    ) -> None:
        self._service_s = dict(service_s)
        self._first_with: dict[tuple[Message, ...], NodeId] = {}
        self.run_id = run_id
        self.program = program
        self.nodes: dict[str, TraceNode] = {node.name: node for node in program.nodes}
        self.declared: set[str] = set()
        self.declared_at_s: dict[str, float] = {}
        self.ended: set[str] = set()
        self.given_up: set[str] = set()
        self.closed: set[str] = set()
        self.seeds = seeds(program)
        self.outputs = {call.name: call.output_tokens for call in program.calls()}
        self._root = NodeId(f"{program.shape}#0")
        self._undeclared = dict.fromkeys(self.nodes)
        self._awaited = {name for node in program.nodes for name in node.after}
        self._awaited.update(node.plan for node in program.nodes if isinstance(node, ToolUse))
        self._awaited.update(program.result)
        if program.quorum is not None:
            self._awaited.update(program.quorum[0])
        self._reached: dict[str, int] = {}
        self._spelt: set[Part] = set()
        self._after: NodeId | None = None

    @property
    def root(self) -> NodeId:
        """The program's own node."""
        return self._root

    def node_id(self, name: str) -> NodeId:
        """Of one of its nodes."""
        return NodeId(f"{self._root}/{name}")

    def name_of(self, node_id: NodeId) -> str:
        """Of one of its nodes."""
        return node_id[len(self._root) + 1 :]

    def begin(self, now_s: float) -> Iterator[InternalEvent]:
        """What is told when somebody starts it."""
        program = self.program
        yield RunStarted(
            self.run_id,
            program.shape,
            f"traces:{program.shape}",
            now_s,
            _UNIX_NS + int(now_s * 1e9),
            tenant=program.tenant,
            true_service_s=self.true_rest_s,
        )
        yield NodeDeclared(
            self.run_id, self._root, "program", program.shape, None, (), program.shape, now_s
        )
        yield NodeDemanded(self.run_id, self._root, now_s)

    @property
    def true_rest_s(self) -> float:
        """Service that the calls need which are not over."""
        return sum(self._service_s.values())

    def spell(self, call: TraceCall) -> int:
        """Tokens of a call's prompt that the run spells for the first time."""
        fresh = [part for part in parts(call) if part not in self._spelt]
        self._spelt.update(fresh)
        return sum(part.tokens for part in fresh if not isinstance(part, OutputOf))

    def marks(self, call: str) -> tuple[int, ...]:
        """Lengths of a call's output at which a tool's arguments are complete."""
        return tuple(
            node.at_token
            for node in self.program.nodes
            if isinstance(node, ToolUse) and node.plan == call and node.at_token
        )

    def reached(self, call: str, tokens: int) -> None:
        """A plan's output has got so long."""
        self._reached[call] = tokens

    def node_ended(self, name: str) -> None:
        """A node's value is there."""
        self.node_given_up(name)
        self.ended.add(name)
        self._after = self.node_id(name)

    def node_given_up(self, name: str) -> None:
        """A node ended without a value."""
        self.closed.add(name)
        self._service_s.pop(name, None)

    def more(self, now_s: float) -> Iterator[InternalEvent]:
        """What the program does now that something has changed."""
        found = True
        while found:
            found = False
            for name in list(self._undeclared):
                node = self.nodes[name]
                if self._may_declare(node):
                    found = True
                    del self._undeclared[name]
                    self.declared.add(name)
                    self.declared_at_s[name] = now_s
                    yield self._declaration(node, now_s)
                    if name in self._awaited:
                        yield NodeDemanded(self.run_id, self.node_id(name), now_s)
        yield from self._spare(now_s)

    @property
    def is_over(self) -> bool:
        """Whether the result is there and nothing is under way."""
        return self._has_result() and self.declared <= self.closed

    def finish(self, now_s: float) -> RunFinished:
        """What is told at its end."""
        return RunFinished(self.run_id, "ok", now_s)

    def _may_declare(self, node: TraceNode) -> bool:
        if not self.ended.issuperset(node.after):
            return False
        if isinstance(node, ToolUse) and node.plan and node.plan not in self.ended:
            return 0 < node.at_token <= self._reached.get(node.plan, 0)
        return isinstance(node, TraceThink | ToolUse) or self.declared.issuperset(needs(node))

    def _declaration(self, node: TraceNode, now_s: float) -> NodeDeclared:
        plan = node.plan if isinstance(node, ToolUse) else ""
        deps = tuple(self.node_id(name) for name in needs(node) if name != plan)
        site = node.name if isinstance(node, TraceThink) else node.site
        return NodeDeclared(
            self.run_id,
            self.node_id(node.name),
            "generate" if isinstance(node, TraceCall) else "tool",
            site,
            self._root,
            deps,
            site,
            now_s,
            fork_of=self._fork_of(node) if isinstance(node, TraceCall) else None,
            plan=self.node_id(plan) if plan else None,
            after=self._after,
            model=MODEL if isinstance(node, TraceCall) else "",
        )

    def _fork_of(self, call: TraceCall) -> NodeId | None:
        """The first node that continues the same chat, up to the last answer in it."""
        found: NodeId | None = None
        for end in range(len(call.prompt), 0, -1):
            first = self._first_with.setdefault(call.prompt[:end], self.node_id(call.name))
            if found is None and first != self.node_id(call.name):
                found = first
            if call.prompt[end - 1][0] == "assistant":
                break
        return found

    def _has_quorum(self) -> bool:
        quorum = self.program.quorum
        return quorum is None or len(self.ended.intersection(quorum[0])) >= quorum[1]

    def _has_result(self) -> bool:
        wanted = set(self.program.result)
        if self.program.quorum is not None:
            wanted.difference_update(self.program.quorum[0])
        return self._has_quorum() and wanted <= self.ended

    def _spare(self, now_s: float) -> Iterator[InternalEvent]:
        """With a quorum, or the whole result, there: the rest is given up."""
        rest: set[str] = set()
        if self.program.quorum is not None and self._has_quorum():
            rest.update(self.program.quorum[0])
        if self._has_result():
            rest.update(self.declared)
            self._undeclared.clear()
        for name in sorted(rest - self.ended - self.given_up):
            self.given_up.add(name)
            if name in self.declared:
                yield CancelRequested(self.run_id, self.node_id(name), "not needed any more")
            self._undeclared.pop(name, None)
