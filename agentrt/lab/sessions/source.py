"""Where sessions come from: recordings by name, or draws of the published shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.sessions.recorded import Recording
from agentrt.lab.workloads.agent_session import AgentSession
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.session_draw import SessionDraw
from agentrt.lab.workloads.text import KeySpeller, words_of

DRAWN = "drawn"
_SHORT = {"mini": "aa-mini-v1", "default": "agentperf-default-v1"}
"""Short names of published recordings."""
_TEMPLATE_TOKENS = 4  # at most, of one message


class SessionSource(Protocol):
    """Sessions by the number of the agent; equal numbers give equal sessions."""

    def __len__(self) -> int:
        """Number of different sessions; more agents play them again, under other text."""
        ...

    def session(self, number: int) -> AgentSession:
        """The session of an agent."""
        ...


@record
class RecordedSource:
    """Recorded tasks, in turns. A replica begins with a line of its own: caches share nothing.

    Attributes:
        tasks: The tasks.
    """

    tasks: tuple[AgentSession, ...]

    def __len__(self) -> int:
        return len(self.tasks)

    def session(self, number: int) -> AgentSession:
        """The task of an agent; the first agent of each task plays it as it was recorded."""
        replica, at = divmod(number, len(self.tasks))
        task = self.tasks[at]
        if not replica:
            return task
        return replace(task.salted(f"Agent {replica}.\n"), name=f"{task.name}#{replica}")


@record
class DrawnSource:
    """Sessions of the published shape.

    Attributes:
        draw: How they are drawn.
        spell: Spells keys as text.
    """

    draw: SessionDraw
    spell: KeySpeller

    def __len__(self) -> int:
        return 1

    def session(self, number: int) -> AgentSession:
        """The session of an agent; all agents begin with the same instructions."""
        return self.draw.session(number, self.spell)


def named_tasks(recordings: Sequence[Recording], names: Sequence[str]) -> tuple[AgentSession, ...]:
    """Recorded tasks.

    Args:
        recordings: All recordings.
        names: Names of recordings (`mini`, `default`, or those of their folders) and of tasks.

    Raises:
        UsageError: There is no recording or task of a name.
    """
    known: dict[str, tuple[AgentSession, ...]] = {}
    for recording in recordings:
        known[recording.name] = recording.sessions
        known |= {task.name: (task,) for task in recording.sessions}
    found: dict[str, AgentSession] = {}
    for name in names:
        tasks = known.get(_SHORT.get(name, name))
        if tasks is None:
            others = ", ".join((DRAWN, *_SHORT, *known))
            raise UsageError(f"--trace {name} is not known", hint=f"Use some of {others}")
        found |= {task.name: task for task in tasks}
    return tuple(found.values())


def drawn_source(
    tokenizer: Path, window_tokens: int, factors: Mapping[str, float], seed: int
) -> DrawnSource:
    """Sessions that fit a model's window.

    At life size a request has 142k prompt tokens. Without factors, prompts and answers are scaled
    down alike, so that the longest session fits.

    Args:
        tokenizer: Path of the model's `tokenizer.json`.
        window_tokens: Window of the model.
        factors: Factors on life size, by name.
        seed: Seed of all draws.

    Raises:
        UsageError: There is no such factor, or the tokenizer has too few words.
    """
    whole = SessionDraw()
    room = window_tokens - _TEMPLATE_TOKENS * 2 * 120  # messages of the longest session
    fitting = min(1.0, room / whole.longest_tokens)
    scale = Scale(context=fitting, output=fitting).with_factors(factors)
    draw = SessionDraw(seed=seed, scale=scale, longest_tokens=room)
    return DrawnSource(draw, KeySpeller(words_of(tokenizer)))
