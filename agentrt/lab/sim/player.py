"""A trace played as a program: the code that declares its nodes, and waits for them.

It behaves like a program with this graph. A generation is declared when all nodes that it quotes
are declared and its other inputs have ended, so that pending parts are holes. A tool that a plan
calls is declared when its arguments are complete in the plan's output.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from functools import lru_cache
from typing import Any

import anyio

from agentrt.base.errors import NodeCancelled
from agentrt.base.ids import NodeId, RunId
from agentrt.base.notifier import Notifier
from agentrt.base.segments import CallMade
from agentrt.lab.sim.codec import text_of
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.executor import SimulatedExecutor
from agentrt.lab.sim.greedy_texts import GreedyText, greedy_texts
from agentrt.lab.sim.outcome import ProgramOutcome
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.workloads import (
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    TraceThink,
)
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.lab.workloads.site_limits import NO_LIMITS, SiteLimits
from agentrt.lab.workloads.trace import Part, TraceNode, needs, parts, seeds
from agentrt.program import Gen, GenOptions, Node, Program, Tool, program, tool
from agentrt.program.node import add_demand, mark_handled, note_wait, when_done
from agentrt.runtime.requests.begun_text import PART_CHUNKS


class TracePlayer:
    """One run of a trace.

    Args:
        trace: The trace to play.
        run_id: Id of the run.
        ids: Token ids of all texts.
        engine: Executor of the engine; its costs contain those of the runtime.
        outcome: Outcome of the run, which receives the time of tools.
        greedy: True if calls with equal prompts write equal text.
        limits: Limits of outputs by site; a call of another site has its own length as its limit.

    Attributes:
        trace: The trace to play.
        run_id: Id of the run.
        outcome: Latency and figures of the run.
    """

    def __init__(
        self,
        trace: ProgramTrace,
        run_id: RunId,
        ids: TokenIds,
        engine: SimulatedExecutor,
        outcome: ProgramOutcome,
        *,
        greedy: bool = False,
        limits: SiteLimits = NO_LIMITS,
    ) -> None:
        self.trace = trace
        self.run_id = run_id
        self.outcome = outcome
        self._ids = ids
        self._engine = engine
        self._service_s = service_of(trace, engine.costs.step)
        self._traced: dict[str, TraceNode] = {node.name: node for node in trace.nodes}
        self._needs = {node.name: needs(node) for node in trace.nodes}
        self._seeds = seeds(trace)
        self._limits = limits
        self._result_tokens = _result_tokens(trace)
        self._streamed = _streamed(trace)
        self._texts = greedy_texts(trace) if greedy else {}
        self._undeclared = dict.fromkeys(self._traced)
        self._awaited = {name for node in trace.nodes for name in node.after}
        self._awaited.update(node.plan for node in trace.tools())
        self._quorum, self._least = trace.quorum or ((), 0)
        self._awaited.update(trace.result, self._quorum)
        self._wanted = set(trace.result).difference(self._quorum)
        self._tree: ChatTree[Part] = ChatTree()
        self._nodes: dict[str, Node[Any]] = {}
        self._names: dict[NodeId, str] = {}
        self._ended: set[str] = set()
        self._cancelled: set[str] = set()
        self._closed: list[Node[Any]] = []
        self._changed = Notifier()
        self._encoded: set[Part] = set()
        self._readers: list[asyncio.Task[None]] = []

    async def play(self) -> None:
        """Play the trace: the code of the program."""
        await anyio.sleep(self.costs.run_s)
        try:
            while True:
                self._note_ends()
                self._declare()
                self._cancel_needless()
                if self._is_over:
                    return
                await self._changed.wait()
        finally:  # the hints about prefixes depend on the chats that are alive
            self._tree = ChatTree()
            self._nodes.clear()
            self._readers.clear()

    @property
    def costs(self) -> SimCosts:
        """The present costs."""
        return self._engine.costs

    async def use(self, name: str) -> str:
        """Run a tool or a pause of the trace: sleep, then answer."""
        node = self._traced[name]
        assert not isinstance(node, TraceCall)
        self.outcome.tool_s += node.seconds
        await anyio.sleep(node.seconds + self.costs.tool_s)
        tokens = self._result_tokens.get(name, 0)
        return text_of(self._ids.result(self.run_id, name, tokens))

    def call_of(self, node_id: NodeId) -> TraceCall:
        """The call of a node."""
        call = self._traced[self._names[node_id]]
        assert isinstance(call, TraceCall)
        return call

    @property
    def rest_s(self) -> float:
        """Service of the calls that have not ended."""
        return sum(self._service_s.values())

    def output(self, call: TraceCall) -> range:
        """The token ids of a call's output."""
        text = self._texts.get(call.name, GreedyText(call.name, call.output_tokens))
        return self._ids.output(self.run_id, text.call, text.tokens)[: call.output_tokens]

    def encode(self, call: TraceCall) -> int:
        """Tokens of a call's prompt that the run encodes for the first time."""
        fresh = [part for part in parts(call) if part not in self._encoded]
        self._encoded.update(fresh)
        return sum(part.tokens for part in fresh if not isinstance(part, OutputOf))

    def marks(self, call: TraceCall) -> tuple[int, ...]:
        """Lengths of a call's output at which a tool's arguments are complete."""
        tools = self.trace.tools()
        return tuple(one.at_token for one in tools if one.plan == call.name and one.at_token)

    def stops(self, call: TraceCall) -> tuple[int, ...]:
        """Lengths of a call's output that the program or the runtime acts on."""
        begun = range(PART_CHUNKS, call.output_tokens + 1, PART_CHUNKS)
        return (*self.marks(call), *(begun if call.name in self._streamed else ()))

    def _note_ends(self) -> None:
        """Note the nodes that ended since the last call.

        Raises:
            Exception: The error of a node that the program needs.
        """
        closed, self._closed = self._closed, []
        for node in closed:
            name = self._names[node.id]
            if node.error is None:
                self._ended.add(name)
                note_wait(node)
            elif name not in self._cancelled:
                raise node.error

    def _declare(self) -> None:
        """Declare all nodes that may be declared."""
        for name in list(self._undeclared):
            traced = self._traced[name]
            if not self._may_declare(traced):
                continue
            del self._undeclared[name]
            node = self._nodes[name] = self._declared(traced)
            self._names[node.id] = name
            when_done(node, self._node_ended)
            if name in self._awaited:
                add_demand(node)

    def _may_declare(self, node: TraceNode) -> bool:
        if not self._ended.issuperset(node.after):
            return False
        if isinstance(node, ToolUse) and node.plan and node.plan not in self._ended:
            plan = self._nodes.get(node.plan)
            return isinstance(plan, Gen) and 0 < node.at_token <= plan.written.produced_tokens
        if isinstance(node, TraceThink | ToolUse):
            return True
        return all(name in self._nodes for name in self._needs[node.name])

    def _declared(self, node: TraceNode) -> Node[Any]:
        if isinstance(node, TraceCall):
            return self._call(node)
        if isinstance(node, ToolUse) and node.plan:
            plan = self._nodes[node.plan]
            assert isinstance(plan, Gen)
            call = CallMade("", node.site, "")
            arguments = {"player": self, "name": node.name}
            return _tool_of(node.site).start_call(arguments, call, plan, 0, None)
        return _tool_of(node.site if isinstance(node, ToolUse) else node.name)(self, node.name)

    def _call(self, call: TraceCall) -> Gen[str]:
        """A generation like that of a replay: greedy, unless it is one of several samples."""
        options: GenOptions = {
            "max_tokens": self._limits.get((self.trace.shape, call.site), call.output_tokens),
            "ignore_eos": True,
            "name": call.site,
        }
        if call.name in self._seeds:
            options |= {"temperature": 1.0, "top_k": 1, "seed": self._seeds[call.name]}
        gen = self._tree.find(call.prompt, self._part).generate(**options)
        if marks := self.marks(call):
            self._readers.append(asyncio.create_task(self._read(gen, marks), context=Context()))
        return gen

    async def _read(self, plan: Gen[str], marks: tuple[int, ...]) -> None:
        """Wake the program if the arguments of a tool are complete in its plan."""
        left = sorted(marks)
        with suppress(NodeCancelled):
            async for _ in plan.stream():
                if left and plan.written.produced_tokens >= left[0]:
                    left = [mark for mark in left if mark > plan.written.produced_tokens]
                    self._changed.notify_all()

    def _part(self, part: Part) -> str | Node[Any]:
        match part:
            case Piece():
                return text_of(self._ids.piece(part))
            case OutputOf():
                return self._nodes[part.call]
            case _:
                return self._nodes[part.tool]

    def _node_ended(self, node: Node[Any]) -> None:
        self._service_s.pop(self._names[node.id], None)
        self._closed.append(node)
        self._changed.notify_all()

    def _cancel_needless(self) -> None:
        """Cancel the rest of a quorum that is complete, and of a program with its result."""
        rest = set(self._quorum if self._has_quorum else ())
        if self._has_result:
            rest.update(self._nodes)
            self._undeclared.clear()
        for name in sorted(rest - self._ended - self._cancelled):
            self._cancelled.add(name)
            self._undeclared.pop(name, None)
            node = self._nodes.get(name)
            if node is not None:
                mark_handled(node)
                node.cancel("not needed any more")

    @property
    def _is_over(self) -> bool:
        """Whether the result is there and no node is open."""
        return self._has_result and all(node.done for node in self._nodes.values())

    @property
    def _has_quorum(self) -> bool:
        return len(self._ended.intersection(self._quorum)) >= self._least

    @property
    def _has_result(self) -> bool:
        return self._has_quorum and self._wanted <= self._ended


@lru_cache(maxsize=256)
def program_of(shape: str) -> Program[[TracePlayer], None]:
    """The program that plays a shape; the runtime learns estimates for each program."""

    async def played(player: TracePlayer) -> None:
        await player.play()

    played.__name__ = shape.replace("-", "_")
    return program(played)


@lru_cache(maxsize=1024)
def _tool_of(site: str) -> Tool[[Any, str], str]:
    """The tool of a site."""

    async def used(player: Any, name: str) -> str:
        answer: str = await player.use(name)
        return answer

    used.__name__ = site.replace("-", "_")
    return tool(effects="read")(used)


def _streamed(trace: ProgramTrace) -> set[str]:
    """Calls whose text others take while it is written."""
    return {
        part.call
        for call in trace.calls()
        for part in parts(call)
        if isinstance(part, OutputOf) and part.call not in call.after
    }


def _result_tokens(trace: ProgramTrace) -> dict[str, int]:
    """Length of the answer of each tool and pause in the prompts that quote it."""
    quoted = (part for call in trace.calls() for part in parts(call))
    return {use.name: use.result_tokens for use in trace.tools()} | {
        part.tool: part.tokens for part in quoted if isinstance(part, TraceResult)
    }
