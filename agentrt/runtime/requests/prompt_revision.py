"""Prompts that leave too little room, handed to the program's `on_overflow` and sent again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agentrt.base.errors import ContextOverflow, NodeCancelled, UsageError
from agentrt.base.ids import NodeId
from agentrt.program import Chat, Gen, Scope, in_scope
from agentrt.protocol.events import PromptRevised
from agentrt.runtime.completion import failed
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task
from agentrt.scheduler import InternalEvent


class PromptRevisions:
    """Starts tasks that ask programs for shorter prompts, and tells the loop when they have."""

    def __init__(self, post: Callable[[InternalEvent], None], windows: ContextWindows) -> None:
        self._post = post
        self._windows = windows

    def begin(
        self, run: Run, gen: Gen[Any], engine: ModelRole, refused: ContextOverflow | None
    ) -> bool:
        """Ask for a shorter prompt, where the program wants to be asked.

        A prompt that leaves little room is asked for once; one that was refused again as long as
        what came of it was shorter.

        Args:
            run: Of the node.
            gen: Its prompt does not fit.
            engine: That is to have it.
            refused: Why it cannot be served as it is; None when it only leaves too little room.
        """
        work = gen.work
        if work.on_overflow is None:
            return False
        length = len(work.chat.pieces())
        before = run.revised.get(gen.id)
        if before is not None and (refused is None or length >= before):
            return False
        run.revised[gen.id] = length
        task = run.tasks[gen.id] = Task()
        body = self._run(run, gen, engine, task, refused)
        run.under_way.start(body, f"{gen.id} on_overflow", run.contexts[gen.id].copy())
        return True

    async def _run(
        self,
        run: Run,
        gen: Gen[Any],
        engine: ModelRole,
        task: Task,
        refused: ContextOverflow | None,
    ) -> None:
        gone = f"{gen.label} was torn down"
        error: Exception | None = NodeCancelled(gone, reason="torn down")
        deps: tuple[NodeId, ...] = ()
        try:
            with task.scope:
                try:
                    if task.stop_error is not None:  # told to end before it could begin
                        raise task.stop_error
                    deps = await self._revise(run, gen, engine, refused)
                    error = None
                except Exception as raised:
                    error = raised
                except SystemExit as leaving:
                    error = run.leave(gen, leaving)
            if task.scope.cancelled_caught:
                error = task.stop_error
        finally:
            run.tasks.pop(gen.id, None)
            if gen.done:
                pass
            elif error is not None:
                self._post(failed(run, gen, error))
            else:
                self._post(PromptRevised(run.run_id, gen.id, deps, run.now_s()))

    async def _revise(
        self, run: Run, gen: Gen[Any], engine: ModelRole, refused: ContextOverflow | None
    ) -> tuple[NodeId, ...]:
        """Let the program's function look at the prompt; the nodes that this took."""
        work = gen.work
        assert work.on_overflow is not None
        await _settled(work.chat)
        overflow = self._windows.overflow(engine, gen, work.chat.segments())
        scope = Scope.of_callback(gen)

        async def ask() -> Any:
            assert work.on_overflow is not None
            given: Any = work.on_overflow(overflow)
            return await given if inspect.isawaitable(given) else given

        chat = await in_scope(scope, ask)
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
        await _settled(chat)
        gen.replace_prompt(chat.with_tools(work.chat.tools))
        waited = scope.waited.node_id
        deps = [source.id for source in chat.inputs() if source.scope.run is run]
        return (*deps, waited) if waited is not None else tuple(deps)


async def _settled(chat: Chat) -> None:
    """Wait for what is pending in a chat."""
    for source in chat.inputs():
        await source.wait_until_done()
