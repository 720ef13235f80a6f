"""Turns and agents as they were played; instants are seconds from the beginning of the play."""

from __future__ import annotations

import time
from dataclasses import field
from hashlib import sha256

from agentrt.base.record import record
from agentrt.lab.workloads.agent_session import AgentTurn


@record
class TurnSample:
    """One turn.

    Attributes:
        session: Name of its session.
        turn: Number of the turn in its session, from 0 on.
        began_s: Instant of the request.
        first_s: Instant of the first token; None if none came.
        ended_s: Instant of the end.
        prompt_tokens: Length of the prompt as the engine counts; None if it does not report it.
        cached_tokens: Prompt tokens found in the cache; None if the engine does not report them.
        asked_tokens: Length of the answer that was asked for.
        output_tokens: Length of the answer as the engine counts.
        output_hash: Beginning of the SHA-256 digest of its text.
        ideal_tokens: Prompt tokens that a cache finds which never forgets; None if unknown.
    """

    session: str
    turn: int
    began_s: float
    first_s: float | None
    ended_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    asked_tokens: int
    output_tokens: int
    output_hash: str
    ideal_tokens: int | None = None

    @property
    def latency_s(self) -> float:
        """Seconds from the request to its end."""
        return self.ended_s - self.began_s

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the request to its first token."""
        return None if self.first_s is None else self.first_s - self.began_s

    @property
    def step_s(self) -> float | None:
        """Seconds between two tokens, on average; None for less than two."""
        if self.first_s is None or self.output_tokens < 2:
            return None
        return (self.ended_s - self.first_s) / (self.output_tokens - 1)


@record
class AgentSample:
    """One agent.

    Attributes:
        session: Name of its session.
        arrived_s: Instant of its arrival.
        ended_s: Instant of its end.
        turns: Turns in the order of their ends, those of subagents among them.
        error: Message of the error that ended it, or "".
    """

    session: str
    arrived_s: float
    ended_s: float
    turns: tuple[TurnSample, ...]
    error: str = ""


@record
class Watch:
    """Clock of a play.

    Attributes:
        began_at_s: Instant of its beginning on the monotonic clock.
    """

    began_at_s: float = field(default_factory=time.monotonic)

    def now_s(self) -> float:
        """Seconds since the play began."""
        return time.monotonic() - self.began_at_s


@record
class TurnAnswer:
    """The answer to one request.

    Attributes:
        text: Generated text.
        first_s: Instant of the first token; None if none came.
        prompt_tokens: Length of the prompt; None if unknown.
        cached_tokens: Prompt tokens found in the cache; None if unknown.
        output_tokens: Length of the answer.
    """

    text: str
    first_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int


def turn_sample(
    session: str,
    number: int,
    turn: AgentTurn,
    began_s: float,
    ended_s: float,
    answer: TurnAnswer,
) -> TurnSample:
    """The sample of a turn that was answered."""
    return TurnSample(
        session,
        number,
        began_s,
        answer.first_s,
        ended_s,
        answer.prompt_tokens,
        answer.cached_tokens,
        turn.output_tokens,
        answer.output_tokens,
        sha256(answer.text.encode("utf-8", "replace")).hexdigest()[:12],
    )
