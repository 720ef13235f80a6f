"""Agents: a model that calls tools until it gives its final answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar, overload

from typing_extensions import TypeForm, Unpack

from agentrt.base.errors import BudgetExceeded, UsageError
from agentrt.base.record import record
from agentrt.program.call_site import call_site
from agentrt.program.chat import Calls, Chat, GenOptions
from agentrt.program.node import Node
from agentrt.program.output import MAX_CALLS
from agentrt.program.program import Program
from agentrt.program.prompt_prefix import with_more_tools
from agentrt.program.tool import Tool
from agentrt.program.tool_call import Final, ToolCall

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

AtMaxTurns = Literal["answer", "raise"]


@record
class AgentResult(Generic[T_co]):
    """The final answer of an agent, and how it came to it; `await agent(...)` gives one.

    Example:
        >>> from agentrt import AgentResult, chat
        >>> result = AgentResult(42, chat().user("6 times 7?"), turns=1)
        >>> result.value
        42

    Attributes:
        value: The answer.
        ctx: The chat behind the answer, with all calls and their results.
        turns: Answers that the model gave, the final one included.
        calls: Calls that were made, in order.
    """

    value: T_co
    ctx: Chat
    turns: int
    calls: tuple[ToolCall, ...] = ()


@overload
def agent(
    ctx: Chat,
    /,
    tools: Sequence[Tool[..., Any]],
    *,
    max_turns: int = 10,
    at_max: AtMaxTurns = "answer",
    max_calls: int = MAX_CALLS,
    **options: Unpack[GenOptions],
) -> Node[AgentResult[str]]: ...
@overload
def agent(
    ctx: Chat,
    /,
    tools: Sequence[Tool[..., Any]],
    *,
    final: TypeForm[T],
    max_turns: int = 10,
    at_max: AtMaxTurns = "answer",
    max_calls: int = MAX_CALLS,
    **options: Unpack[GenOptions],
) -> Node[AgentResult[T]]: ...
def agent(
    ctx: Chat,
    /,
    tools: Sequence[Tool[..., Any]],
    *,
    final: Any = str,
    max_turns: int = 10,
    at_max: AtMaxTurns = "answer",
    max_calls: int = MAX_CALLS,
    **options: Unpack[GenOptions],
) -> Node[AgentResult[Any]]:
    """An agent: the model calls tools, reads their results and goes on until it answers.

    Use it for the usual loop; write your own over `chat.step` to look at calls before they start,
    or to change the tools on the way. The calls of one turn run side by side. The model reads the
    failure of a tool as `error: ...` and may go on.

    The agent is a node like a program's call, named `agent`; its turns are named `step`, and the
    turn that must answer is named `answer`. All its nodes have the call site of the agent.

    Example:
        >>> from agentrt import agent, chat, program, tool
        >>> @tool(effects="pure")
        ... def price(symbol: str) -> float:
        ...     return 98.5
        >>> @program
        ... async def worth() -> str:
        ...     result = await agent(chat().user("What is IBM worth?"), [price], max_turns=3)
        ...     return f"{result.value}, after {result.turns} turns"
        >>> worth.run()
        '98.5 dollars, after 2 turns'

    Args:
        ctx: The chat up to the question.
        tools: Tools that it may call.
        final: Type of the final answer.
        max_turns: Most answers of the model; the last one cannot call tools.
        at_max: Fate of an agent that would still call tools then: with "answer" the last turn is
            held to the type of the final answer; with "raise" it may call, and if it does the
            agent fails and the calls are not made.
        max_calls: Most calls in one turn.
        options: Options of each turn; see `GenOptions`.

    Raises:
        NoRun: No run is active.
        UsageError: There are no tools, an option is out of range, or unknown.
        BudgetExceeded: Raised on awaiting, by `at_max="raise"`.
        Exception: Raised on awaiting: the error of a turn.
    """
    if max_turns < 1:
        raise UsageError(
            f"max_turns={max_turns} is out of range", hint="Give 1 or more", where=call_site()
        )
    if at_max not in ("answer", "raise"):
        raise UsageError(
            f"at_max={at_max!r} is unknown", hint="Give 'answer' or 'raise'", where=call_site()
        )
    return _AGENT(ctx, tuple(tools), final, max_turns, at_max, max_calls, options)


async def _turns(
    ctx: Chat,
    tools: tuple[Tool[..., Any], ...],
    final: Any,
    max_turns: int,
    at_max: AtMaxTurns,
    max_calls: int,
    options: GenOptions,
) -> AgentResult[Any]:
    made: tuple[ToolCall, ...] = ()
    for turn in range(1, max_turns + (at_max == "raise")):
        gen = ctx.step(tools=tools, final=final, max_calls=max_calls, **options)
        match await gen:
            case Final(value):
                return AgentResult(value, gen.ctx, turn, made)
            case Calls() as asked:
                if turn < max_turns:
                    made += asked.calls
                    ctx = asked.run()
    if at_max == "raise":
        raise BudgetExceeded(
            f"the agent has not answered in {max_turns} turns",
            hint="Give it more max_turns, or take the best answer by at_max='answer'",
        )
    named: GenOptions = {"name": "answer", **options}
    last = with_more_tools(ctx, tools).generate(final, **named)
    return AgentResult(await last, last.ctx, max_turns, made)


_turns.__name__ = "agent"  # of the node
_AGENT = Program(_turns, None)
