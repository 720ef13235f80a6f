"""Prompts with large texts are encoded in a worker thread, so that deadlines are kept meanwhile."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from agentrt.base.segments import Segment
from agentrt.program import Gen
from agentrt.protocol.events import PromptRevised
from agentrt.runtime.completion import carry_out
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.prompts import LargePrompt
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task
from agentrt.scheduler import InternalEvent
from agentrt.tools.workers import run_in_worker


class LargePrompts:
    """Starts tasks that encode large prompts ahead, and posts their ends to the loop."""

    def __init__(self, post: Callable[[InternalEvent], None]) -> None:
        self._post = post

    def begin(self, run: Run, gen: Gen[Any], engine: ModelRole, prompt: LargePrompt) -> None:
        """Start the task; at its end the generation is sent anew, and the codec has the ids."""
        run.encoded_large_texts[gen.id] = prompt.large_texts
        task = run.tasks[gen.id] = Task()
        body = self._run(run, gen, engine, task, prompt.segments)
        run.task_set.start(body, f"{gen.id} large prompt", contextvars.copy_context())

    async def _run(
        self,
        run: Run,
        gen: Gen[Any],
        engine: ModelRole,
        task: Task,
        segments: list[Segment],
    ) -> None:
        assert engine.codec is not None
        chat = gen.work.chat
        encode = partial(
            engine.codec.encode_ahead, chat.tools, segments, chat.history, run.options.cache_salt
        )
        body = partial(run_in_worker, encode, _nothing)
        await carry_out(run, gen, task, body, partial(_revised, run, gen), self._post)


def _revised(run: Run, gen: Gen[Any], _: None) -> PromptRevised:
    return PromptRevised(run.run_id, gen.id, (), run.now_s())


def _nothing() -> None:
    return None
