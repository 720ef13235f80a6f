"""Programs over HTTP with asyncio and httpx alone, as a careful author writes without a library.

Runs in the peers' environment, or ours; see `plain_play`. A node is a task that waits for the tasks
it needs: branches go at once, a tool begins as soon as the stream of its plan holds its arguments.
When enough of a vote have ended, the other tasks are cancelled, which closes their connections.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable

import httpx
from answering import Json, answer_lines
from plain_play import PlainClient, PlanProgress, ProgramInPlay, Server, vote


class AsyncioClient(PlainClient):
    """Plays programs as tasks."""

    async def open(self, settings: Json) -> Json:
        """Connect."""
        self._server = Server(settings)
        return {"python": platform.python_version(), "httpx": httpx.__version__}

    def prepare(self, program: Json, played: ProgramInPlay) -> Callable[[], Awaitable[None]]:
        """Nothing has to be made ready: the program is its own code."""
        return lambda: self._run(program, played)

    async def _run(self, program: Json, played: ProgramInPlay) -> None:
        quorum = program["quorum"]
        voters: list[str] = quorum["names"] if quorum else []
        tasks: dict[str, asyncio.Task[None]] = {}
        plans = self._plans(program)

        async def node(one: Json) -> None:
            early = one["plan"] if one["kind"] == "tool" and one["at_token"] else ""
            for name in one["needs"]:
                if name != early:
                    await tasks[name]
            if early:
                written = asyncio.create_task(plans[early].wait(one["at_token"]))
                await asyncio.wait({written, tasks[early]}, return_when=asyncio.FIRST_COMPLETED)
                written.cancel()
                if tasks[early].done():
                    tasks[early].result()  # a plan that failed fails its tools
            if one["kind"] == "call":
                await self._call(one, played, voters, plans.get(one["name"]))
            else:
                await played.wait(one)

        try:
            for one in program["nodes"]:
                tasks[one["name"]] = asyncio.create_task(node(one))
            if quorum:
                await vote({name: tasks[name] for name in voters}, quorum["least"], played)
            await asyncio.gather(*(tasks[name] for name in program["result"] if name not in voters))
            played.end()
            await asyncio.gather(*(task for name, task in tasks.items() if name not in voters))
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _plans(self, program: Json) -> dict[str, PlanProgress]:
        """Progress of each call that tools may begin within."""
        calls = {one["name"]: one for one in program["nodes"] if one["kind"] == "call"}
        tools = (one for one in program["nodes"] if one["kind"] == "tool")
        names = {one["plan"] for one in tools if one["at_token"]}
        held = bool(self._server.form_body)
        return {name: PlanProgress(in_words=held and "pattern" in calls[name]) for name in names}

    async def _call(
        self, call: Json, played: ProgramInPlay, voters: list[str], plan: PlanProgress | None
    ) -> None:
        began_s = played.watch.now_s()
        answer = await self._server.answer(
            call,
            played.messages(call),
            played.watch,
            may_end=call["name"] in voters,
            plan=plan,
        )
        played.answered(call, began_s, answer)


if __name__ == "__main__":
    answer_lines(AsyncioClient())
