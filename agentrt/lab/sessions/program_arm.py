"""Sessions played as programs of this package, in this process: chats are values.

Each prompt extends the chat of the turn before as far as both begin alike. The recorded answer, not
the generated one, is what the next prompt quotes, as on servers.
"""

from __future__ import annotations

import anyio

from agentrt.base.segments import ToolSchema
from agentrt.lab.sessions.samples import (
    AgentSample,
    TurnAnswer,
    TurnSample,
    Watch,
    turn_sample,
)
from agentrt.lab.workloads.agent_session import (
    AgentMessage,
    AgentSession,
    AgentTurn,
    common_messages,
    wire_message,
)
from agentrt.program import Chat, gather, program, tool
from agentrt.program.messages import segments_of
from agentrt.program.prompt_prefix import extended
from agentrt.runtime import Runtime


class ProgramArm:
    """An open runtime.

    Args:
        runtime: The runtime.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def play(self, session: AgentSession, watch: Watch) -> AgentSample:
        """Play a session as a run, from now on; a failure ends it and stands in its sample."""
        arrived_s = watch.now_s()
        turns: list[TurnSample] = []
        error = ""
        try:
            await self._runtime.run(agent, SessionChats(session, watch, turns))
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        return AgentSample(session.name, arrived_s, watch.now_s(), tuple(turns), error)


class SessionChats:
    """A session while it is played.

    Args:
        session: The session.
        watch: Clock of the play.
        turns: Samples of its turns, to which those of its subagents are added.
    """

    def __init__(self, session: AgentSession, watch: Watch, turns: list[TurnSample]) -> None:
        self.session = session
        self._watch = watch
        self._turns = turns
        self._tools: tuple[ToolSchema, ...] = ()
        self._messages: tuple[AgentMessage, ...] = ()
        self._chats: list[Chat] = [Chat()]  # one longer than messages, the empty chat first

    async def answer(self, number: int) -> None:
        """Generate the answer of a turn."""
        turn = self.session.turns[number]
        began_s = self._watch.now_s()
        gen = self.chat_of(turn).generate(
            max_tokens=turn.output_tokens, ignore_eos=True, name="turn"
        )
        await gen
        ended_s, ledger = self._watch.now_s(), gen.meta.ledger
        first_at_s = gen.written.first_token_at_s
        answer = TurnAnswer(
            gen.text,
            first_at_s - self._watch.began_at_s if first_at_s else None,
            ledger.prompt_tokens,
            ledger.cached_tokens,
            ledger.output_tokens,
        )
        self._turns.append(turn_sample(self.session.name, number, turn, began_s, ended_s, answer))

    def chat_of(self, turn: AgentTurn) -> Chat:
        """The chat of a turn, grown from that of the turn before."""
        if turn.tools != self._tools:
            self._messages, self._tools = (), turn.tools
            self._chats = [Chat(tools=turn.tools)]
        kept = common_messages(self._messages, turn.messages)
        del self._chats[kept + 1 :]
        for segments in segments_of(map(wire_message, turn.messages[kept:])):
            self._chats.append(extended(self._chats[-1], segments))
        self._messages = turn.messages
        return self._chats[-1]

    def subagents(self, number: int) -> list[SessionChats]:
        """The sessions that a turn starts."""
        started = self.session.turns[number].subagents
        return [SessionChats(one, self._watch, self._turns) for one in started]


@tool(effects="read")
async def wait(seconds: float) -> None:
    """Take as long as the tools of a turn took."""
    await anyio.sleep(seconds)


@program
async def agent(chats: SessionChats) -> None:
    """Play a session.

    Args:
        chats: The session.
    """
    await _play(chats)


@program
async def subagent(chats: SessionChats) -> None:
    """Play the session of a subagent, for which estimates of their own are learned.

    Args:
        chats: The session.
    """
    await _play(chats)


async def _play(chats: SessionChats) -> None:
    for number, turn in enumerate(chats.session.turns):
        await chats.answer(number)
        await gather(*(subagent(one) for one in chats.subagents(number)))
        if turn.wait_s:
            await wait(turn.wait_s)
