"""One program as a fixed graph: prompts, output lengths and tool times are known beforehand.

The simulator, the replay on our runtime and the clients of peers all read this, so that each of
them does the same work. A prompt consists of pieces with keys: equal keys are equal text, which
caches share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Literal, TypeAlias

from agentrt.base.errors import UsageError
from agentrt.base.record import record

TraceRole: TypeAlias = Literal["system", "user", "assistant"]


@record
class Piece:
    """Part of a prompt that is known from the start.

    Attributes:
        key: Equal keys are equal text.
        tokens: Length.
    """

    key: str
    tokens: int


@record
class OutputOf:
    """Part of a prompt: the output of an earlier call.

    Attributes:
        call: Name of the call.
    """

    call: str


@record
class TraceResult:
    """Part of a prompt: the answer of a tool or a person.

    Attributes:
        tool: Name of the tool or pause.
        tokens: Length of that text.
    """

    tool: str
    tokens: int


Part: TypeAlias = Piece | OutputOf | TraceResult
Message: TypeAlias = tuple[TraceRole, tuple[Part, ...]]


@record
class TraceCall:
    """One generation.

    Attributes:
        name: Name, unique within the program.
        prompt: Messages; the answer follows as one of the assistant.
        output_tokens: Exact length of the output.
        after: Nodes that must have ended first, beside those that the prompt quotes.
        site: Call site in the program's source; calls of one site are alike.
        forced_tokens: Output tokens that a grammar forces.
    """

    name: str
    prompt: tuple[Message, ...]
    output_tokens: int
    after: tuple[str, ...] = ()
    site: str = field(kw_only=True)
    forced_tokens: int = 0


@record
class ToolUse:
    """One call of a tool.

    Attributes:
        name: Name, unique within the program.
        seconds: Duration.
        after: Nodes that must have ended first, beside its plan.
        plan: Generation that wrote its arguments; "" if the program's own code calls it.
        at_token: Tokens of the plan after which its arguments are complete; 0 if they are known
            only at the plan's end.
        result_tokens: Length of its answer.
        site: Call site in the program's source.
    """

    name: str
    seconds: float
    after: tuple[str, ...] = ()
    plan: str = ""
    at_token: int = 0
    result_tokens: int = field(kw_only=True)
    site: str = field(kw_only=True)


@record
class TraceThink:
    """A person's pause.

    Attributes:
        name: Name, unique within the program.
        seconds: Duration.
        after: Nodes that must have ended first.
    """

    name: str
    seconds: float
    after: tuple[str, ...] = ()


TraceNode: TypeAlias = TraceCall | ToolUse | TraceThink


@record
class ProgramTrace:
    """One program.

    Attributes:
        shape: Name of the shape.
        serial: Number of the program, unique within its shape and workload.
        nodes: Nodes in a topological order.
        result: Nodes that end the program; there may be none beside a quorum.
        quorum: Calls of which the first `k` to end suffice, and `k`: the rest is then given up.
            None if every node counts.
        tenant: Tenant of the program.

    Raises:
        UsageError: The graph is not valid: a node is quoted before it is there, or the like.
    """

    shape: str
    serial: int
    nodes: tuple[TraceNode, ...]
    result: tuple[str, ...]
    quorum: tuple[tuple[str, ...], int] | None = None
    tenant: str = ""

    def __post_init__(self) -> None:
        known: dict[str, TraceNode] = {}
        for node in self.nodes:
            if node.name in known:
                raise _wrong(self, node.name, "there are two of that name")
            for name in needs(node):
                if name not in known:
                    raise _wrong(self, node.name, f"it needs {name!r}, which is not before it")
            _check_node(self, node, known)
            known[node.name] = node
        if not self.result and self.quorum is None:
            raise _wrong(self, "result", "nothing ends the program")
        for name in self.result:
            if name not in known:
                raise _wrong(self, "result", f"there is no node {name!r}")
        _check_quorum(self, known)

    @property
    def name(self) -> str:
        """Name in messages and files."""
        return f"{self.shape}/{self.serial}"

    def calls(self) -> tuple[TraceCall, ...]:
        """The generations."""
        return tuple(node for node in self.nodes if isinstance(node, TraceCall))

    def tools(self) -> tuple[ToolUse, ...]:
        """The uses of tools."""
        return tuple(node for node in self.nodes if isinstance(node, ToolUse))


@record
class Arrival:
    """A program and its arrival.

    Attributes:
        at_s: Seconds from the beginning of the workload.
        program: The program.
    """

    at_s: float
    program: ProgramTrace


Workload: TypeAlias = tuple[Arrival, ...]


def parts(call: TraceCall) -> Iterable[Part]:
    """All parts of a prompt, in order."""
    for _, message in call.prompt:
        yield from message


def needs(node: TraceNode) -> tuple[str, ...]:
    """Nodes that a node waits for, each once: `after`, the quoted ones, and the plan."""
    found = dict.fromkeys(node.after)
    if isinstance(node, TraceCall):
        for part in parts(node):
            if isinstance(part, OutputOf):
                found[part.call] = None
            elif isinstance(part, TraceResult):
                found[part.tool] = None
    elif isinstance(node, ToolUse) and node.plan:
        found[node.plan] = None
    return tuple(found)


def prompt_tokens(program: ProgramTrace) -> dict[str, int]:
    """Length of each call's prompt by its name, without the tokens of a template."""
    outputs = {call.name: call.output_tokens for call in program.calls()}
    return {
        call.name: sum(
            outputs[part.call] if isinstance(part, OutputOf) else part.tokens
            for part in parts(call)
        )
        for call in program.calls()
    }


def seeds(program: ProgramTrace) -> dict[str, int]:
    """Seeds of samples: calls that share their prompt with other calls of the program.

    A sample is played with its seed, so that samples differ; all other calls are greedy.
    """
    calls = program.calls()
    sketches = [(len(call.prompt), call.prompt[-1][1][-1:]) for call in calls]  # cheap to hash
    alike = Counter(sketches)
    maybe = {at for at, sketch in enumerate(sketches) if alike[sketch] > 1}
    prompts = Counter(calls[at].prompt for at in maybe)
    return {calls[at].name: at for at in sorted(maybe) if prompts[calls[at].prompt] > 1}


def _check_node(program: ProgramTrace, node: TraceNode, known: dict[str, TraceNode]) -> None:
    if isinstance(node, TraceCall):
        _check_call(program, node, known)
    elif not node.seconds >= 0:
        raise _wrong(program, node.name, f"it takes {node.seconds} s")
    if isinstance(node, ToolUse) and node.plan:
        plan = known[node.plan]
        if not isinstance(plan, TraceCall):
            raise _wrong(program, node.name, f"its plan {node.plan!r} is no call")
        if not 0 <= node.at_token <= plan.output_tokens:
            raise _wrong(program, node.name, f"its plan has no token {node.at_token}")


def _check_call(program: ProgramTrace, call: TraceCall, known: dict[str, TraceNode]) -> None:
    if call.output_tokens < 1 or not 0 <= call.forced_tokens <= call.output_tokens:
        raise _wrong(program, call.name, f"{call.forced_tokens} of {call.output_tokens} tokens")
    if not any(True for _ in parts(call)):
        raise _wrong(program, call.name, "its prompt is empty")
    for part in parts(call):
        if isinstance(part, OutputOf) and not isinstance(known[part.call], TraceCall):
            raise _wrong(program, call.name, f"{part.call!r} is no call and puts nothing out")
        if isinstance(part, TraceResult) and isinstance(known[part.tool], TraceCall):
            raise _wrong(program, call.name, f"{part.tool!r} is a call and has no result")
        if not isinstance(part, OutputOf) and part.tokens < 1:
            raise _wrong(program, call.name, f"a part of {part.tokens} tokens")


def _check_quorum(program: ProgramTrace, known: dict[str, TraceNode]) -> None:
    if program.quorum is None:
        return
    names, least = program.quorum
    if not all(isinstance(known.get(name), TraceCall) for name in names):
        raise _wrong(program, "quorum", "not all of it are calls")
    if not 1 <= least <= len(set(names)) == len(names):
        raise _wrong(program, "quorum", f"{least} of {len(names)}")
    given_up = set(names)
    for node in program.nodes:
        if given_up.intersection(needs(node)):
            raise _wrong(program, node.name, "it needs a call that may be given up")


def _wrong(program: ProgramTrace, where: str, what: str) -> UsageError:
    return UsageError(
        f"{program.name}: {where}: {what}",
        hint="A trace lists each node after those that it needs, with lengths of at least 1",
    )
