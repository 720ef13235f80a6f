"""Sessions of agents: each turn is a whole prompt and the exact length of its answer.

A program's trace (`trace.py`) has lengths and dependencies; a session has text. It is what a client
of chat completions sends: messages with tool calls, and tools with their schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentrt.base.record import record
from agentrt.base.segments import Role, ToolSchema


@record
class AgentCall:
    """A tool call in an assistant's message.

    Attributes:
        call_id: Id that its result names.
        name: Name of the tool.
        arguments_json: Arguments as the model wrote them.
    """

    call_id: str
    name: str
    arguments_json: str


@record
class AgentMessage:
    """One message of a prompt.

    Attributes:
        role: Author.
        text: Content.
        calls: Tool calls of an assistant.
        call_id: Call that a tool's message answers, or "".
    """

    role: Role
    text: str
    calls: tuple[AgentCall, ...] = ()
    call_id: str = ""


@record
class AgentTurn:
    """One request of an agent.

    Attributes:
        messages: The whole prompt.
        tools: Tools offered with it.
        output_tokens: Exact length of its answer.
        wait_s: Time of tools or of a person between its answer and the next turn.
        subagents: Sessions that start with its answer; the next turn needs the ends of all.
        recorded_prompt_tokens: Length of the prompt as recorded, with the tokenizer of the recorded
            model; 0 if unknown.
    """

    messages: tuple[AgentMessage, ...]
    tools: tuple[ToolSchema, ...]
    output_tokens: int
    wait_s: float = 0.0
    subagents: tuple[AgentSession, ...] = ()
    recorded_prompt_tokens: int = 0


@record
class AgentSession:
    """The turns of one agent.

    Attributes:
        name: Name in results.
        turns: Turns in their order.
    """

    name: str
    turns: tuple[AgentTurn, ...]

    def answer(self, turn: int) -> AgentMessage | None:
        """The recorded answer of a turn: the assistant's message at which the next prompt differs.

        Args:
            turn: Number of the turn, from 0 on.

        Returns:
            None for the last turn, and if the next prompt goes on with something else.
        """
        if turn + 1 >= len(self.turns):
            return None
        ours, later = self.turns[turn].messages, self.turns[turn + 1].messages
        at = common_messages(ours, later)
        return later[at] if at < len(later) and later[at].role == "assistant" else None

    def all_turns(self) -> Iterator[AgentTurn]:
        """All turns, those of subagents behind the turn that starts them."""
        for turn in self.turns:
            yield turn
            for subagent in turn.subagents:
                yield from subagent.all_turns()

    def salted(self, salt: str) -> AgentSession:
        """The same session with other text at the beginning of each prompt.

        A cache that holds the session has nothing of the salted one. Lengths grow by the salt.

        Args:
            salt: Text before that of the first message; "" changes nothing.
        """
        if not salt:
            return self
        return replace(self, turns=tuple(_salted_turn(turn, salt) for turn in self.turns))

    def shortened(self, most_turns: int, most_output_tokens: int) -> AgentSession:
        """The first turns with short answers, to try a command; 0 leaves a quantity as it is."""
        turns = self.turns[:most_turns] if most_turns else self.turns
        return replace(
            self,
            turns=tuple(
                replace(
                    turn,
                    output_tokens=min(turn.output_tokens, most_output_tokens or turn.output_tokens),
                    subagents=tuple(
                        one.shortened(most_turns, most_output_tokens) for one in turn.subagents
                    ),
                )
                for turn in turns
            ),
        )

    def waiting(self, factor: float) -> AgentSession:
        """The same session with the times of its tools multiplied."""
        if factor == 1:
            return self
        turns = (
            replace(
                turn,
                wait_s=factor * turn.wait_s,
                subagents=tuple(one.waiting(factor) for one in turn.subagents),
            )
            for turn in self.turns
        )
        return replace(self, turns=tuple(turns))


def common_messages(one: tuple[AgentMessage, ...], other: tuple[AgentMessage, ...]) -> int:
    """Number of messages with which both begin."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def wire_message(message: AgentMessage) -> dict[str, Any]:
    """A message as chat completions take it."""
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        found["content"] = message.text or None
        found["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call in message.calls
        ]
    if message.call_id:
        found["tool_call_id"] = message.call_id
    return found


def wire_tool(tool: ToolSchema) -> dict[str, Any]:
    """A tool as chat completions take it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _salted_turn(turn: AgentTurn, salt: str) -> AgentTurn:
    first, *others = turn.messages
    subagents = tuple(one.salted(salt) for one in turn.subagents)
    salted = replace(first, text=f"{salt}{first.text}")
    return replace(turn, messages=(salted, *others), subagents=subagents)
