"""A generation of a simulated program on its way, and what a turn has to say to an engine."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from agentrt.base.errors import NodeCancelled
from agentrt.base.ids import RequestId
from agentrt.lab.sim.program_run import ProgramRun
from agentrt.lab.sim.token_ids import PromptIds
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.runtime.in_flight.coalescing import CoalescedRequest
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.model_role import ModelRole

Act = Callable[[float], None]
"""Does something at an instant."""

_STOPPED = NodeCancelled("the program does without it")


class Sending:
    """A generation on its way: as much of a `InFlight` as sharing asks for.

    Attributes:
        run: Whose.
        name: Of the call.
        prompt: Its ids, as far as they were given to the engine.
        output_ids: That it puts out.
        marks: Lengths of its output at which a tool's arguments are complete.
        heard_tokens: So many of its output were looked through for those.
        stopped: It was told to end.
        engine: Who has it.
        request_id: Under which its node is known to have been sent.
        request: What was sent, as it was then.
        sent_ids: Prompt that the engine has been given.
        shared: The request that it has in common with others, or could have.
        joined_at_s: When it joined a request that was under way; None where it has its own.
        info: Scheduling info last sent to its engine.
        token_ids: That the engine put out before the call left it.
        first_token_at_s: When the first of those was there.
    """

    __slots__ = (
        "engine",
        "first_token_at_s",
        "heard_tokens",
        "info",
        "joined_at_s",
        "marks",
        "name",
        "output_ids",
        "prompt",
        "request",
        "request_id",
        "run",
        "sent_ids",
        "shared",
        "stopped",
        "taken_deltas",
        "token_ids",
    )

    def __init__(
        self,
        run: ProgramRun,
        name: str,
        request_id: RequestId,
        prompt: PromptIds,
        output_ids: range,
        engine: ModelRole,
    ) -> None:
        self.run = run
        self.name = name
        self.request_id = request_id
        self.prompt = prompt
        self.output_ids = output_ids
        self.engine = engine
        self.marks = run.marks(name)
        self.heard_tokens = 0
        self.stopped = False
        self.request: GenerateRequest | None = None
        self.sent_ids: tuple[int, ...] = ()
        self.shared: CoalescedRequest | None = None
        self.joined_at_s: float | None = None
        self.info: SchedulingInfo | None = None
        self.taken_deltas = 0
        self.token_ids = range(0)
        self.first_token_at_s: float | None = None

    @property
    def live(self) -> InFlight:
        """As sharing sees it."""
        seen = SimpleNamespace(
            sent=self.request,
            joined_at_s=self.joined_at_s,
            prompt_ids=self.sent_ids,
            output_ids=self.token_ids,
            has_output=self.begun,
            gen=self,
        )
        return cast(InFlight, seen)

    @property
    def gen(self) -> Sending:
        """It is its own node."""
        return self

    @property
    def begun(self) -> bool:
        """Whether anything was put out before it left."""
        return bool(self.token_ids)

    @property
    def stop_error(self) -> Exception | None:
        """What its node ends with, once it was told to end."""
        return _STOPPED if self.stopped else None

    @property
    def engine_id(self) -> RequestId:
        """Under which its engine computes it: another one's, where it joined that."""
        return self.request_id if self.shared is None else self.shared.request_id

    def reaches(self, tokens: int) -> bool:
        """Whether an output of so many tokens has just come to one of its marks."""
        heard, self.heard_tokens = self.heard_tokens, tokens
        return any(heard < mark <= tokens for mark in self.marks)


class Said:
    """What a turn of the runtime has to say to its engine, which hears it together."""

    def __init__(self) -> None:
        self._acts: list[Act] = []

    def say(self, act: Act) -> None:
        """One thing more."""
        self._acts.append(act)

    def take(self) -> list[Act]:
        """All of it."""
        acts, self._acts = self._acts, []
        return acts
