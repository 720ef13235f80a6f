"""One generation under way: what was sent, and what has come back."""

from __future__ import annotations

from typing import Any

from agentrt.backend import TokenLogprob
from agentrt.ids import RequestId, RunId
from agentrt.program import Gen
from agentrt.runtime.engine import Engine
from agentrt.runtime.reading import Reader
from agentrt.runtime.stuck import Repetition


class Live:
    """A request that an engine has.

    Attributes:
        run_id: Its run.
        gen: Its node.
        engine: Who has it.
        request_id: Under which its events come.
        reader: Turns its text into items and a value.
        repetition: Watches for a model that is stuck.
        sent_ids: Prompt that the engine has been given.
        complete: Whether the engine has the whole prompt.
        token_ids: Produced so far.
        logprobs: Of those, when asked for.
        begun: Whether anything was produced.
        stop_error: What the node ends with, once it was told to end.
    """

    __slots__ = (
        "begun",
        "complete",
        "engine",
        "gen",
        "logprobs",
        "reader",
        "repetition",
        "request_id",
        "run_id",
        "sent_ids",
        "stop_error",
        "token_ids",
    )

    def __init__(
        self, run_id: RunId, gen: Gen[Any], engine: Engine, request_id: RequestId, reader: Reader
    ) -> None:
        self.run_id = run_id
        self.gen = gen
        self.engine = engine
        self.request_id = request_id
        self.reader = reader
        self.repetition = Repetition()
        self.sent_ids: tuple[int, ...] = ()
        self.complete = False
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.begun = False
        self.stop_error: Exception | None = None
