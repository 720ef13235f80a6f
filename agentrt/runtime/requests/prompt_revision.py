"""Prompt revision: a prompt that leaves too little room is shortened by `on_overflow`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from agentrt.base.errors import ContextOverflow, UsageError
from agentrt.base.ids import NodeId
from agentrt.program import Chat, Gen, Scope, in_scope
from agentrt.program.generation import replace_prompt
from agentrt.program.node import wait_until_done
from agentrt.program.prompt_prefix import inputs_of, pieces_of, prompt_segments, with_tools
from agentrt.protocol.events import PromptRevised
from agentrt.runtime.completion import carry_out
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.large_options import LargeOptions
from agentrt.runtime.requests.large_prompts import LargePrompts
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task
from agentrt.scheduler import InternalEvent


class PromptRevisions:
    """Starts tasks that call `on_overflow`, and posts their ends to the loop.

    Attributes:
        large_prompts: Prompts that are encoded in a worker thread.
        large_options: Options of outputs that are written in one.
    """

    def __init__(self, post: Callable[[InternalEvent], None], windows: ContextWindows) -> None:
        self._post = post
        self._windows = windows
        self.large_prompts = LargePrompts(post)
        self.large_options = LargeOptions(post)

    def begin(
        self, run: Run, gen: Gen[Any], engine: ModelRole, refused: ContextOverflow | None
    ) -> bool:
        """Whether `on_overflow` is called for a shorter prompt; starts the task if so.

        It is called once for a prompt that leaves little room, and again for one that was refused,
        as long as each prompt is shorter than the one before.

        Args:
            run: The run of the node.
            gen: The node with the prompt.
            engine: The engine of the node.
            refused: Why the prompt cannot be served; None if it only leaves too little room.
        """
        work = gen.work
        if work.on_overflow is None:
            return False
        length = len(pieces_of(work.chat))
        before = run.revised_pieces.get(gen.id)
        if before is not None and (refused is None or length >= before):
            return False
        run.revised_pieces[gen.id] = length
        task = run.tasks[gen.id] = Task()

        def revised(deps: tuple[NodeId, ...]) -> PromptRevised:
            return PromptRevised(run.run_id, gen.id, deps, run.now_s())

        body = partial(self._revise, run, gen, engine, refused)
        revising = carry_out(run, gen, task, body, revised, self._post)
        run.task_set.start(revising, f"{gen.id} on_overflow", run.contexts[gen.id].copy())
        return True

    async def _revise(
        self, run: Run, gen: Gen[Any], engine: ModelRole, refused: ContextOverflow | None
    ) -> tuple[NodeId, ...]:
        """Call `on_overflow` and replace the prompt; gives the nodes on which that depended."""
        work = gen.work
        assert work.on_overflow is not None
        await _inputs_done(work.chat)
        overflow = self._windows.overflow(engine, gen, prompt_segments(work.chat))
        scope = Scope.of_callback(gen)

        async def call() -> Any:
            assert work.on_overflow is not None
            given: Any = work.on_overflow(overflow)
            return await given if inspect.isawaitable(given) else given

        chat = await in_scope(scope, call)
        if chat is None:
            if refused is not None:
                raise refused
            return ()
        if not isinstance(chat, Chat):
            raise UsageError(
                f"on_overflow of {gen.label} gave {type(chat).__name__}",
                hint="Give a Chat, or None to go on with the one there is",
                where=gen.site,
            )
        await _inputs_done(chat)
        replace_prompt(gen, with_tools(chat, work.chat.tools))
        waited = scope.waited.node_id
        deps = [source.id for source in inputs_of(chat) if source.scope.run is run]
        return (*deps, waited) if waited is not None else tuple(deps)


async def _inputs_done(chat: Chat) -> None:
    """Wait for the pending parts of a chat."""
    for source in inputs_of(chat):
        await wait_until_done(source)
