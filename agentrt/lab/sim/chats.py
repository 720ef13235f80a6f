"""The chats and nodes of a simulated program, as the language has them.

What engines are told of prefixes follows from which chats a program still holds. So a simulated
program holds real ones, made as its replay makes them, and `runtime.retention` reads them as it
reads those of any program. Nothing is ever sent for them: the scheduler knows the program's nodes
by their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from agentrt.base.errors import NodeCancelled
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.segments import Generated, Hole, Open, Segment, Text
from agentrt.lab.sim.program_run import MODEL, ProgramRun
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.workloads import OutputOf, Piece, ToolUse, TraceCall
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.lab.workloads.trace import Part, TraceNode
from agentrt.program import Gen, GenOptions, Node, OutputSpec, Scope, Submit, ToolWork, tool
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend, Capabilities, KvHint
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.run import Run

Hint = Callable[[tuple[int, ...], KvHint, float | None, int], None]
"""Says what becomes of a prefix: its ids, what, until when, and from which token on."""

_TEXT = OutputSpec("value", None, str, "str")


@tool(effects="read")
async def _simulated() -> str:
    """A tool that is never called."""
    return ""


class Hinted:
    """As much of an engine as retention asks for: it takes hints, and measures prompts.

    Args:
        hint: Takes them.
        start_tokens: What a template writes before the first message.
        kv_tokens: Its memory.
        host_kv_tokens: That of its host.
    """

    def __init__(
        self, hint: Hint, start_tokens: int, kv_tokens: int, host_kv_tokens: int = 0
    ) -> None:
        self.capabilities = Capabilities(
            "simulated",
            MODEL,
            "tokens",
            holes=True,
            hints=True,
            kv_tokens=kv_tokens,
            host_kv_tokens=host_kv_tokens,
        )
        self._hint = hint
        self._start_tokens = start_tokens

    @property
    def engine(self) -> ModelRole:
        """In the role of simulated programs."""
        return ModelRole(MODEL, cast(Backend, self), cast(Codec, self))

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None = None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """As of a backend."""
        self._hint(token_ids, hint, until_s, from_tokens)

    def encode(self, tools: object, segments: list[Segment], history: object) -> _Encoded:
        """As of a codec, but that only the length is right: each letter is a token."""
        tokens = self._start_tokens + 1
        for segment in segments:
            if isinstance(segment, Hole):
                break  # what stands behind it is not sealed
            if isinstance(segment, Open):
                tokens += MESSAGE_TOKENS
            elif isinstance(segment, Text | Generated):
                tokens += len(segment.text)
        return _Encoded(tokens)


class _Encoded:
    """So many tokens."""

    def __init__(self, tokens: int) -> None:
        self.token_ids = range(tokens)


class ProgramChats:
    """What the code of one program holds, until it ends.

    Args:
        run: The program.
        engine: That it asks.
    """

    def __init__(self, run: ProgramRun, engine: ModelRole) -> None:
        self._run = run
        self._engine = engine
        self._scope = Scope(cast(Submit[Any], _Undriven(run.run_id)), str(run.root), run.root)
        self._tree: ChatTree[Part] = ChatTree()
        self._nodes: dict[str, Node[Any]] = {}

    def sent(self, name: str, request_id: RequestId) -> InFlight:
        """A generation that is sent now."""
        gen = self._node(name)
        assert isinstance(gen, Gen)
        return InFlight(cast(Run, self._run), gen, self._engine, request_id)

    def begun(self, name: str) -> Node[Any]:
        """A tool or a person that begins now."""
        return self._node(name)

    def ended(self, name: str) -> None:
        """A node has its value."""
        node = self._node(name)
        text = "x" * self._tokens(name)
        if isinstance(node, Gen):
            node.generated = Generated(text)
        node.succeed(text)

    def given_up(self, name: str) -> None:
        """A node ended without one."""
        self._node(name).fail(NodeCancelled(f"{name} was given up"))

    def _tokens(self, name: str) -> int:
        node = self._run.nodes[name]
        match node:
            case TraceCall():
                return node.output_tokens
            case ToolUse():
                return node.result_tokens
            case _:
                return 0

    def _node(self, name: str) -> Node[Any]:
        """As the program's code made it when it declared it; its inputs were declared before."""
        made = self._nodes.get(name)
        if made is None:
            made = self._nodes[name] = self._made(self._run.nodes[name])
            made.id = self._run.node_id(name)
        return made

    def _made(self, node: TraceNode) -> Node[Any]:
        if isinstance(node, TraceCall):
            options: GenOptions = {"max_tokens": node.output_tokens, "ignore_eos": True}
            prompt = self._tree.find(node.prompt, self._part)
            gen: Gen[str] = Gen(self._scope, prompt, _TEXT, node.name, node.site, options)
            return gen
        plan = self._node(node.plan) if isinstance(node, ToolUse) and node.plan else None
        work = ToolWork(_simulated.spec, {}, plan=plan)
        node_id = self._run.node_id(node.name)
        return Node(self._scope, node_id, "tool", node.name, node.name, work)

    def _part(self, part: Part) -> str | Node[Any]:
        match part:
            case Piece():
                return "x" * part.tokens
            case OutputOf():
                return self._node(part.call)
            case _:
                return self._node(part.tool)


class _Undriven:
    """A run whose nodes nobody starts."""

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id

    @property
    def run_id(self) -> RunId:
        """As of any run."""
        return self._run_id

    def now_s(self) -> float:
        """No node asks for a deadline."""
        return 0.0

    def seed_of(self, node_id: NodeId) -> int:
        """Nothing is drawn."""
        return 0
