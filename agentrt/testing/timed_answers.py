"""Answers with times of their own, played beside the steps of a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import groupby

import anyio

from agentrt.base.clock import Clock
from agentrt.protocol.step_output import Delta, End
from agentrt.testing.request import ScriptedRequest
from agentrt.testing.timed_output import TimedOutput


class TimedAnswers:
    """Plays timed answers, each in a task of its own.

    Args:
        clock: Clock of the engine.
        is_ongoing: Whether a request was neither ended nor cancelled meanwhile.
        put: Delivers what a request gives at one instant, perhaps its end.
    """

    def __init__(
        self,
        clock: Clock,
        is_ongoing: Callable[[ScriptedRequest], bool],
        put: Callable[[ScriptedRequest, list[Delta], End | None], None],
    ) -> None:
        self._clock = clock
        self._is_ongoing = is_ongoing
        self._put = put
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, one: ScriptedRequest, output: TimedOutput) -> None:
        """Play an answer from now on."""
        task = asyncio.create_task(self._play(one, output))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop all of them."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _play(self, one: ScriptedRequest, output: TimedOutput) -> None:
        if output.wait_s:
            await self._until(self._clock.now_s() + output.wait_s)
            if not self._is_ongoing(one):
                return
            one.begin_at(self._clock.now_s())
        began_s, total_s = self._clock.now_s(), max(output.times.total_s, output.delivered_s)
        skipped, left = one.produced, one.produced  # what a lost engine had delivered
        rest: list[Delta] = []
        for at_s, parts in groupby(output.parts, key=lambda part: part.at_s):
            await self._until(began_s + at_s)
            if not self._is_ongoing(one):
                return
            now_s = self._clock.now_s()
            for part in parts:
                left -= part.tokens
                if not skipped or left < 0:
                    delta = one.timed_delta(part, now_s)
                    if not output.unmet:  # none of it is reported
                        rest.append(delta)
            if at_s < total_s:
                self._put(one, rest, None)
                rest = []
        await self._until(began_s + total_s)
        if self._is_ongoing(one) and one.answer is not None:
            self._put(one, rest, one.end(one.answer, self._clock.now_s()))

    async def _until(self, at_s: float) -> None:
        await anyio.sleep(max(0.0, at_s - self._clock.now_s()))
