"""Sessions of agents of a published shape, drawn: many turns, long prompts, short answers.

The shape is that of the traffic by which public benchmarks of agent serving (vLLM's AgentX) are
described: a median of 43 turns, of 142k prompt tokens and 444 output tokens a request, more than
96 % of the prompt tokens found in a cache, subagents in 44 % of the sessions. Whether subagents'
requests count is not published; here the medians are those of the agents themselves.

Sizes are drawn first, without text, and spelled for a tokenizer afterwards.
"""

from __future__ import annotations

from dataclasses import field
from random import Random

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.workloads.agent_session import AgentMessage, AgentSession, AgentTurn
from agentrt.lab.workloads.draw import Between, Fixed, Skewed
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import Sizes
from agentrt.lab.workloads.text import KeySpeller

SESSION_SIZES: Sizes = {
    "agent.system": Fixed(24_000),  # instructions and tools, the same for every agent
    "agent.task": Skewed(2_000, 8_000, 100, 30_000),
    "agent.turns": Skewed(43, 90, 6, 120),
    "agent.output": Skewed(444, 1_800, 20, 8_000),
    "agent.result": Skewed(2_100, 10_000, 20, 40_000),
    "agent.tool_s": Skewed(9, 74, 0.05, 600),  # as clients of coding agents see it
    "agent.subagents": Between(1, 3),
    "agent.report": Skewed(500, 1_500, 50, 4_000),  # result of a subagent
    "subagent.system": Fixed(8_000),
    "subagent.task": Skewed(600, 2_000, 50, 6_000),
    "subagent.turns": Skewed(9, 25, 2, 40),
    "subagent.output": Skewed(300, 1_000, 20, 4_000),
    "subagent.result": Skewed(1_900, 9_000, 20, 40_000),
    "subagent.tool_s": Skewed(9, 74, 0.05, 600),
}
WITH_SUBAGENTS = 0.44
"""Share of sessions that start subagents."""
LONGEST_TOKENS = 400_000
"""Window at life size: an agent whose next request would pass it is at its end."""


@record
class TurnSizes:
    """Lengths of one turn.

    Attributes:
        new_tokens: Prompt tokens behind the answer before: results, or at first the task.
        output_tokens: Length of the answer.
        wait_s: Time of the tools that the answer calls.
        subagents: Sessions that the answer starts.
    """

    new_tokens: int
    output_tokens: int
    wait_s: float
    subagents: tuple[SessionSizes, ...] = ()


@record
class SessionSizes:
    """Lengths of one session.

    Attributes:
        kind: `agent` or `subagent`; all of a kind begin with the same text.
        system_tokens: Length of that beginning.
        turns: Turns in their order.
    """

    kind: str
    system_tokens: int
    turns: tuple[TurnSizes, ...]

    def prompt_tokens(self) -> list[int]:
        """Length of each turn's prompt, without the tokens of a template."""
        total, found = self.system_tokens, []
        for turn in self.turns:
            total += turn.new_tokens
            found.append(total)
            total += turn.output_tokens
        return found


@record
class SessionDraw:
    """A source of sessions; equal sources give equal sessions.

    Attributes:
        seed: Seed of all draws.
        scale: Factors on life size: `context` on prompts, `output`, `count` on turns, `time`.
        longest_tokens: Longest prompt with its answer.
        sizes: Distributions to draw from.

    Raises:
        UsageError: The window has no room for the first turn.
    """

    seed: int = 0
    scale: Scale = Scale()
    longest_tokens: int = LONGEST_TOKENS
    sizes: Sizes = field(default_factory=lambda: SESSION_SIZES)

    def draw_sizes(self, number: int) -> SessionSizes:
        """Lengths of a session.

        Args:
            number: Number of the agent.
        """
        random = Random(f"session {self.seed} {number}")
        with_subagents = random.random() < WITH_SUBAGENTS
        return self._session("agent", random, with_subagents)

    def session(self, number: int, spell: KeySpeller) -> AgentSession:
        """A session with its text.

        Args:
            number: Number of the agent.
            spell: Spells keys as text.
        """
        return spelled(self.draw_sizes(number), f"drawn-{number}", spell)

    def _session(self, kind: str, random: Random, with_subagents: bool) -> SessionSizes:
        scale = self.scale
        total = system = scale.prompt_tokens(self._drawn(f"{kind}.system", random))
        wanted = scale.many(self._drawn(f"{kind}.turns", random))
        at_turn = random.randrange(1, wanted) if with_subagents else -1
        new = scale.prompt_tokens(self._drawn(f"{kind}.task", random))
        turns: list[TurnSizes] = []
        for number in range(wanted):
            output = scale.output_tokens(self._drawn(f"{kind}.output", random))
            if total + new + output > self.longest_tokens:
                break
            subagents = self._subagents(random) if number == at_turn else ()
            wait_s = 0.0 if subagents else scale.time * self._drawn(f"{kind}.tool_s", random)
            turns.append(TurnSizes(new, output, wait_s, subagents))
            total += new + output
            result = "agent.report" if subagents else f"{kind}.result"
            lengths = (self._drawn(result, random) for _ in range(max(1, len(subagents))))
            new = scale.prompt_tokens(sum(lengths))
        if not turns:
            raise UsageError(
                f"the first turn of a session does not fit {self.longest_tokens} tokens",
                hint="Scale it down, such as --scale context=0.1, or give a longer --window",
            )
        return SessionSizes(kind, system, tuple(turns))

    def _subagents(self, random: Random) -> tuple[SessionSizes, ...]:
        many = round(self._drawn("agent.subagents", random))
        return tuple(self._session("subagent", random, False) for _ in range(many))

    def _drawn(self, name: str, random: Random) -> float:
        return self.sizes[name](random)


def spelled(sizes: SessionSizes, name: str, spell: KeySpeller) -> AgentSession:
    """A session of these lengths.

    Args:
        sizes: Lengths.
        name: Name of the session, which its text depends on.
        spell: Spells keys as text.
    """
    system = spell(f"{sizes.kind}/system", sizes.system_tokens)
    messages = [AgentMessage("system", system)]
    turns = []
    for number, turn in enumerate(sizes.turns):
        text = spell(f"{name}/{number}/new", turn.new_tokens)
        messages.append(AgentMessage("user", text))
        subagents = tuple(
            spelled(one, f"{name}/{number}/{at}", spell) for at, one in enumerate(turn.subagents)
        )
        turns.append(AgentTurn(tuple(messages), (), turn.output_tokens, turn.wait_s, subagents))
        answer = spell(f"{name}/{number}/answer", turn.output_tokens)
        messages.append(AgentMessage("assistant", answer))
    return AgentSession(name, tuple(turns))
