"""What plain clients have in common: how they are asked to play, and how they speak to a server.

Runs in the peers' environment. Questions and answers are lines of JSON, as
`lab/arms/program_arm.py`
and `wire.py` beside it say. A client is a good one: one pool of connections that are kept alive,
whatever may go at once goes at once, nobody sleeps but the tools. It waits for whole answers,
because nothing it does next could use a part of one; only where a server notices a client that
leaves by a broken stream alone, calls that may be given up are streamed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import httpx
from answering import Json, failed, tell

PATIENCE_S = 3600.0


class Player(Protocol):
    """A client that plays programs."""

    async def open(self, settings: Json) -> Json:
        """Connect; gives what is to be known of it."""
        ...

    def prepare(self, program: Json, score: PlayedScore) -> Callable[[], Awaitable[None]]:
        """A program made ready, as a client has it before its input comes."""
        ...


class Server:
    """The server, as its API shows it.

    Args:
        settings: `url`, `model`, `body` (fields that every request carries: what forces lengths and
            keeps prompts) and `streams_what_may_end`, as said above.
    """

    def __init__(self, settings: Json) -> None:
        self.url = settings["url"]
        self.model = settings["model"]
        self.body: Json = settings.get("body", {})
        self.streams_what_may_end = bool(settings.get("streams_what_may_end"))
        self.http = httpx.AsyncClient(
            timeout=httpx.Timeout(PATIENCE_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=False,  # nothing stands between us and a server on this machine
        )

    async def answer(
        self, messages: list[Json], tokens: int, watch: Stopwatch, *, may_end: bool
    ) -> Json:
        """The output of so many tokens: `text`, `first_s`, and the `usage` that was told."""
        body = {"model": self.model, "messages": messages, "max_tokens": tokens, **self.body}
        if may_end and self.streams_what_may_end:
            return await self._streamed(body, watch)
        response = await self.http.post(f"{self.url}/chat/completions", json=body)
        _check(response.status_code, response.content)
        told = response.json()
        message = told["choices"][0]["message"]
        return {"text": message["content"] or "", "first_s": None, "usage": told.get("usage")}

    async def _streamed(self, body: Json, watch: Stopwatch) -> Json:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        texts: list[str] = []
        usage: Json | None = None
        first_s: float | None = None
        async with self.http.stream("POST", f"{self.url}/chat/completions", json=body) as response:
            if response.status_code != 200:
                _check(response.status_code, await response.aread())
            async for chunk in _events(response):
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices") or ():
                    text = (choice.get("delta") or {}).get("content")
                    if text:
                        first_s = watch.now_s() if first_s is None else first_s
                        texts.append(text)
        return {"text": "".join(texts), "first_s": first_s, "usage": usage}


async def _events(response: httpx.Response) -> AsyncIterator[Json]:
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            chunk = json.loads(data)
            if chunk.get("error"):
                raise RuntimeError(f"the server failed in the middle: {chunk['error']}")
            yield chunk


def _check(status: int, content: bytes) -> None:
    if status != 200:
        raise RuntimeError(
            f"the server answered {status}: {content[:300].decode(errors='replace')}"
        )


class Stopwatch:
    """Seconds since the play began."""

    def __init__(self) -> None:
        self._began_at = time.perf_counter()

    def start(self) -> None:
        """The play begins."""
        self._began_at = time.perf_counter()

    def now_s(self) -> float:
        """How long ago that was."""
        return time.perf_counter() - self._began_at


class PlayedScore:
    """What has been played of one program, and when.

    Attributes:
        texts: What each node has said so far.
        watch: Of the play.
    """

    def __init__(self, program: Json, watch: Stopwatch) -> None:
        self.texts: dict[str, str] = {}
        self.watch = watch
        self._program = program
        self._calls: list[Json] = []
        self._waits: list[Json] = []
        self._given_up: list[str] = []
        self._ended_s = 0.0

    def messages(self, call: Json) -> list[Json]:
        """The chat so far as this call sends it."""
        return [
            {"role": role, "content": "".join(self._text(part) for part in parts)}
            for role, parts in call["messages"]
        ]

    def _text(self, part: Json) -> str:
        if "text" in part:
            text: str = part["text"]
            return text
        return self.texts[part.get("output") or part["result"]]

    def answered(self, call: Json, began_s: float, answer: Json) -> None:
        """A call has ended with this answer."""
        usage = answer["usage"] or {}
        details = usage.get("prompt_tokens_details") or {}
        self.texts[call["name"]] = answer["text"]
        self._calls.append(
            {
                "name": call["name"],
                "began_s": began_s,
                "first_s": answer["first_s"],
                "ended_s": self.watch.now_s(),
                "prompt_tokens": usage.get("prompt_tokens"),
                "cached_tokens": details.get("cached_tokens"),
                "output_tokens": usage.get("completion_tokens") or 0,
                "output": answer["text"],
            }
        )

    async def wait(self, node: Json) -> str:
        """A tool does its work, or a person thinks."""
        began_s = self.watch.now_s()
        await asyncio.sleep(node["seconds"])
        self.texts[node["name"]] = node["text"]
        self._waits.append(
            {"name": node["name"], "began_s": began_s, "ended_s": self.watch.now_s()}
        )
        return self.texts[node["name"]]

    def give_up(self, name: str) -> None:
        """A call is not needed any more."""
        self._given_up.append(name)

    def end(self) -> None:
        """The result is there."""
        self._ended_s = self.watch.now_s()

    def told(self, error: str) -> Json:
        """All of it, as the bench wants it."""
        return {
            "name": self._program["name"],
            "arrived_s": self._program["at_s"],
            "ended_s": self._ended_s,
            "calls": self._calls,
            "waits": self._waits,
            "given_up": self._given_up,
            "error": error,
        }


async def play(player: Player, programs: list[Json]) -> list[Json]:
    """Every program from its arrival on, all at once on this loop."""
    watch = Stopwatch()
    scores = [PlayedScore(program, watch) for program in programs]
    ready = [player.prepare(one, score) for one, score in zip(programs, scores, strict=True)]
    watch.start()

    async def one(program: Json, score: PlayedScore, run: Callable[[], Awaitable[None]]) -> Json:
        await asyncio.sleep(max(0.0, program["at_s"] - watch.now_s()))
        try:
            await run()
        except Exception as error:
            return score.told(f"{type(error).__name__}: {error}"[:500])
        return score.told("")

    jobs = (one(*each) for each in zip(programs, scores, ready, strict=True))
    return list(await asyncio.gather(*jobs))


async def _answer_lines(player: Player) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        question = json.loads(line)
        try:
            if question["do"] == "open":
                told: Json = {"about": await player.open(question["settings"])}
            else:
                told = {"samples": await play(player, question["programs"])}
        except Exception as error:
            told = failed(error)
        tell(told)


def main(player: Player) -> None:
    """Answer until standard input ends."""
    asyncio.run(_answer_lines(player))
