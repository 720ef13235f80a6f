"""What a node asks the runtime to do, one value a kind of node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ToolFailed
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import CallMade
from agentrt.program.overflow import OnOverflow
from agentrt.protocol.backend import OnLimit
from agentrt.tools import ToolSpec

if TYPE_CHECKING:
    from agentrt.program.chat import Chat
    from agentrt.program.node import Node
    from agentrt.program.tool import Tool

Parse = Callable[[str], Any]


@record
class OutputSpec:
    """What a generation writes and how its text becomes a value.

    Attributes:
        kind: One value, a streamed array of items, a plan of calls, calls or a final value, or
            `raw` text just as the model writes it, which is never refused.
        constraint: What the engine enforces; None leaves the text free.
        parse: The whole text (`value`), one item (`items`) or the final answer (`step`).
        name: For nodes without a name of their own.
        tools: By name, for `calls` and `step`.
        checked: `parse` may refuse what the constraint allows: that is the model's failure, which
            may answer again, not the engine's.
        keep_special: The text of special tokens is part of the text: calls may stand in it.
    """

    kind: Literal["value", "items", "calls", "step", "raw"]
    constraint: ConstraintSpec | None
    parse: Parse
    name: str
    tools: Mapping[str, Tool[..., Any]] = field(default_factory=dict)
    checked: bool = False
    keep_special: bool = False


@record
class GenerateWork:
    """One generation.

    Attributes:
        chat: The prompt, perhaps with pending parts.
        output: What is written.
        sampling: How tokens are picked.
        on_limit: What happens at a limit.
        model: Role of the engine.
        deadline_at_s: Of the node itself or of a `limits` block around it, or None.
        on_overflow: Asked for a shorter chat when this one leaves too little room.
        thinking_tokens: Most tokens of thought before the output; None leaves it to the model.
        scored: The options of its choice are scored instead of decoding one.
        retries: How often a checked output may be asked for again.
    """

    chat: Chat
    output: OutputSpec
    sampling: SamplingParams
    on_limit: OnLimit
    model: str
    deadline_at_s: float | None
    on_overflow: OnOverflow | None = None
    thinking_tokens: int | None = None
    scored: bool = False
    retries: int = 0


@record
class ToolWork:
    """One tool call.

    Attributes:
        spec: The tool.
        arguments: By name; bound ones are in the spec.
        call: The call a model made, or None when the program calls.
        plan: The generation whose output holds that call.
        plan_item: Which of its calls.
        deadline_at_s: Of a `limits` block around it, or None.
        refused: Why the call's arguments do not fit the tool, or None when they do.
    """

    spec: ToolSpec
    arguments: Mapping[str, Any]
    call: CallMade | None = None
    plan: Node[Any] | None = None
    plan_item: int = 0
    deadline_at_s: float | None = None
    refused: ToolFailed | None = None


@record
class ProgramWork:
    """One call of a program.

    Attributes:
        body: Makes its coroutine.
        inputs: Nodes among its arguments.
        deadline_s: Allowed for it, or None.
        source: `file:function`.
    """

    body: Callable[[], Awaitable[Any]]
    inputs: tuple[Node[Any], ...]
    deadline_s: float | None
    source: str

    def within(self, deadline_s: float) -> ProgramWork:
        """The same call under another deadline."""
        return replace(self, deadline_s=deadline_s)


@record
class AskWork:
    """One question to a person.

    Attributes:
        question: As shown.
        form: The type of the answer.
        parse: An answer that came as text, or as a value, into that type.
        deadline_at_s: Of a `limits` block around it, or None.
    """

    question: str
    form: Any
    parse: Callable[[Any], Any]
    deadline_at_s: float | None = None


Work = GenerateWork | ToolWork | ProgramWork | AskWork
