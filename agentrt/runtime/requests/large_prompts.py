"""Prompts with large texts are encoded in a worker thread, so that deadlines are kept meanwhile."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from agentrt.base.segments import Segment
from agentrt.program import Gen
from agentrt.prompt.large_text import large_texts
from agentrt.protocol.events import PromptRevised
from agentrt.runtime.completion import failed, torn_down
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task, TaskEnd
from agentrt.scheduler import InternalEvent
from agentrt.tools.workers import run_in_worker


class LargePrompts:
    """Starts tasks that encode large prompts ahead, and posts their ends to the loop."""

    def __init__(self, post: Callable[[InternalEvent], None]) -> None:
        self._post = post

    def begin(self, run: Run, gen: Gen[Any], engine: ModelRole) -> bool:
        """Whether the prompt has large texts that are not encoded yet; starts the task if so.

        The generation is sent anew at the end of the task, and the codec then has the encoding.
        """
        if engine.codec is None or engine.capabilities.prompt == "messages":
            return False
        try:
            segments = gen.work.chat.segments()
        except Exception:
            return False  # an input failed: sending reports it
        count = large_texts(segments)
        if count <= run.encoded_large_texts.get(gen.id, 0):
            return False
        run.encoded_large_texts[gen.id] = count
        task = run.tasks[gen.id] = Task()
        body = self._run(run, gen, engine, task, segments)
        run.task_set.start(body, f"{gen.id} large prompt", contextvars.copy_context())
        return True

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
        end = TaskEnd(error=torn_down(gen))
        try:
            end = await run.attempt(gen, task, partial(run_in_worker, encode, _nothing))
        finally:
            run.tasks.pop(gen.id, None)
            if gen.done:
                pass
            elif end.error is not None:
                self._post(failed(run, gen, end.error))
            else:
                self._post(PromptRevised(run.run_id, gen.id, (), run.now_s()))


def _nothing() -> None:
    return None
