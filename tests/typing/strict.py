# pyright: strict
"""Code of a user who checks strictly. Read by mypy and pyright, never run; neither finds a fault."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentrt import (
    AgentResult,
    ItemWritten,
    MapProgress,
    MapResult,
    RunEnded,
    RunMap,
    RunOptions,
    Runtime,
    StartedRun,
    TextWritten,
    ToolCalled,
    agent,
    chat,
    open_runtime,
    program,
    split,
    tool,
)


@tool(effects="read", retries=2, backoff=lambda failed: 2.0 * failed)
async def price(symbol: str) -> float:
    return 1.0


@program
async def worth(mail: str, style: str = "plain") -> int:
    parts = await split(mail, 400, overlap=40)
    text = await agent(chat().user(style), [price])
    result = await agent(chat().user(mail), [price], final=int, max_turns=3, max_tokens=9)
    return result.value + len(parts) + len(text.value) + len(result.calls)


def show(progress: MapProgress) -> None:
    print(progress.done + progress.failed, progress.total)


async def mails() -> AsyncIterator[str]:
    yield "x"


async def main() -> None:
    async with open_runtime() as runtime:
        print(sum(await runtime.map(worth, ["a"], on_progress=show)))
        results = await runtime.map(worth.bind(style="y"), mails(), errors="collect")
        print([one.value + 1 for one in results if one.error is None])
        async with runtime.map(worth, mails(), order="ends") as values:
            async for value in values:
                print(value + 1)
        run = runtime.with_options(RunOptions(unread_events=3)).start(worth, "x")
        async for event in run:
            match event:
                case TextWritten(text=text):
                    print(text.upper())
                case ToolCalled(name=name, arguments=arguments):
                    print(name, arguments)
                case ItemWritten(value=value):
                    print(value)
                case RunEnded():
                    break
                case _:
                    pass
        print(await run + 1)


def wider(
    runtime: Runtime,
    run: StartedRun[int],
    runs: RunMap[int],
    mapped: MapResult[str, int],
    answered: AgentResult[int],
) -> tuple[
    StartedRun[int | None], RunMap[int | None], MapResult[str | None, float], AgentResult[object]
]:
    """Results are covariant."""
    return run, runs, mapped, answered
