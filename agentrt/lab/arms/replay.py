"""A recorded program in the language of agentrt: same runtime and scheduler as any other program.

A call is declared as soon as all that it quotes is declared, with holes for pending outputs, as an
author would write it. A tool starts once its plan has as many tokens as its arguments take, as a
streamed plan would start it. Lengths are forced, by a grammar if the output has a form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import anyio

from agentrt.base.ids import NodeId
from agentrt.base.record import record
from agentrt.lab.arms.play_options import PlayOptions
from agentrt.lab.arms.wire import CallLine, NodeLine, ProgramLine
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.program import Gen, GenOptions, Node, Program, gather, program, race, regex, tool
from agentrt.program.arrivals import Arrivals
from agentrt.program.generation import submit
from agentrt.program.node import when_done
from agentrt.program.output import value_of

PartKey: TypeAlias = tuple[str, str]
"""`text`, `output` or `result`, and the text or the name."""


@record
class PendingNode:
    """A node that is not declared yet; nothing is looked up in its line while it is played.

    Attributes:
        line: The node on the wire.
        after: Nodes that must have ended before it is declared.
        quoted: Nodes that a call quotes, which may be pending when it is declared.
        messages: Hashable messages of a call.
        plan: Call that writes the arguments of a tool, or "".
        at_token: Tokens of the plan after which a tool may begin; 0 waits for the plan's end.
    """

    line: NodeLine
    after: tuple[str, ...]
    quoted: tuple[str, ...] = ()
    messages: tuple[tuple[str, tuple[PartKey, ...]], ...] = ()
    plan: str = ""
    at_token: int = 0


def pending_node(line: NodeLine, options: PlayOptions) -> PendingNode:
    """Make a node ready to be declared."""
    if line["kind"] == "call":
        messages = tuple(
            (role, tuple(next(iter(part.items())) for part in parts))
            for role, parts in line["messages"]
        )
        names = (name for _, parts in messages for kind, name in parts if kind != "text")
        quoted = tuple(dict.fromkeys(names))
        waits_for = (name for name in line["needs"] if name not in quoted or not options.holes)
        return PendingNode(line, tuple(waits_for), quoted, messages)
    plan, at_token = (line["plan"], line["at_token"]) if line["kind"] == "tool" else ("", 0)
    at_token = at_token if options.early_tools else 0
    after = tuple(name for name in line["needs"] if not (at_token and name == plan))
    return PendingNode(line, after, plan=plan, at_token=at_token)


@tool(effects="read")
async def wait(seconds: float, text: str) -> str:
    """Take as long as a recorded tool took, and answer the same."""
    await anyio.sleep(seconds)
    return text


class Play:
    """One program while it is played.

    Args:
        line: The program.
        options: How the program is written.

    Attributes:
        line: The program.
        nodes: Declared nodes by name.
        given_up: Calls that a vote made needless.
    """

    def __init__(self, line: ProgramLine, options: PlayOptions | None = None) -> None:
        self.line = line
        self._options = options or PlayOptions()
        self.nodes: dict[str, Node[str]] = {}
        self.given_up: list[str] = []
        self._tree: ChatTree[PartKey] = ChatTree()
        self._pending = [pending_node(node, self._options) for node in line["nodes"]]
        self._calls: dict[NodeId, CallLine] = {}
        self._services_s = {
            node["name"]: node["service_s"]
            for node in line["nodes"]
            if node["kind"] == "call" and "service_s" in node
        }

    @property
    def rest_s(self) -> float:
        """Service of the calls that have not ended, as far as it is known."""
        return sum(self._services_s.values())

    def call_of(self, node_id: NodeId) -> CallLine | None:
        """The line of a call's node; None if it has none."""
        return self._calls.get(node_id)

    async def run(self) -> None:
        """Play it to its end."""
        while self._declare():
            await self._progress()
        await self._vote()
        await gather(*(self.nodes[name] for name in self.line["result"]))

    def _declare(self) -> bool:
        """Declare what may begin now; True if any node is left."""
        left = []
        for node in self._pending:
            line = node.line
            if not self._may_begin(node):
                left.append(node)
            elif line["kind"] == "call":
                self.nodes[line["name"]] = gen = self._call(line, node)
                self._calls[gen.id] = line
                if self._services_s:
                    when_done(gen, self._served)
            else:
                self.nodes[line["name"]] = wait(line["seconds"], line["text"])
        self._pending = left
        return bool(left)

    def _may_begin(self, node: PendingNode) -> bool:
        nodes = self.nodes
        if not all(name in nodes and nodes[name].done for name in node.after):
            return False
        if not node.at_token:
            return all(name in nodes for name in node.quoted)
        plan = nodes.get(node.plan)
        return isinstance(plan, Gen) and (
            plan.done or plan.written.produced_tokens >= node.at_token
        )

    def _served(self, node: Node[Any]) -> None:
        self._services_s.pop(self._calls[node.id]["name"], None)

    async def _progress(self) -> None:
        """Wait until another node may be declared: for tokens of a plan, or the end of a node."""
        for node in self._pending:
            plan = self.nodes.get(node.plan) if node.at_token else None
            if isinstance(plan, Gen) and not plan.done:
                await self._read(plan)
                return
        names = {name for node in self._pending for name in node.after}
        blocking = [self.nodes[name] for name in names if name in self.nodes]
        arrivals = Arrivals([node for node in blocking if not node.done])
        try:
            await arrivals.next()
        finally:
            arrivals.close()

    async def _read(self, plan: Gen[Any]) -> None:
        """Read a plan until one more tool may begin."""
        marks = [node.at_token for node in self._pending if self.nodes.get(node.plan) is plan]
        async for _ in plan.stream():
            if plan.written.produced_tokens >= min(marks):
                return

    async def _vote(self) -> None:
        quorum = self.line["quorum"]
        if quorum is None:
            return
        if not self._options.cancellation:
            await gather(*(self.nodes[name] for name in quorum["names"]))
            return
        async with race([self.nodes[name] for name in quorum["names"]]) as finished:
            ended = 0
            async for _ in finished:
                ended += 1
                if ended == quorum["least"]:
                    break
        given_up = set(finished.cancelled)
        self.given_up = [name for name in quorum["names"] if self.nodes[name] in given_up]

    def _call(self, line: CallLine, node: PendingNode) -> Gen[str]:
        most = line.get("limit", line["tokens"])
        options: GenOptions = {"max_tokens": most, "name": line["site"]}
        prompt = self._tree.find(node.messages, self._part)
        site = f"{self.line['shape']}/{line['site']}"  # all calls are made in the next lines
        if self._options.forms and "pattern" in line:  # which ends by itself
            return submit(Gen, prompt, value_of(regex(line["pattern"])), options, site=site)
        options["ignore_eos"] = True
        if "seed" in line:
            # The tokens of greedy arms; the seed keeps samples from being computed once.
            options |= {"temperature": 1.0, "top_k": 1, "seed": line["seed"]}
        return submit(Gen, prompt, value_of(str), options, site=site)

    def _part(self, key: PartKey) -> str | Node[str]:
        kind, text = key
        return text if kind == "text" else self.nodes[text]


@lru_cache(maxsize=64)
def program_of(shape: str) -> Program[[Play], None]:
    """The program that plays a shape: estimates learned of one shape do not apply to another."""

    async def played(play: Play) -> None:
        await play.run()

    played.__name__ = shape.replace("-", "_")
    return program(played)
