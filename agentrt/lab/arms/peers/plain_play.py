"""The common part of plain clients: the question `play`, and requests to a server.

Runs in the peers' environment. Programs and samples are lines of JSON as in `wire.py`. A client is
a good one: one pool of connections that are kept alive, branches go at once, and only tools sleep.
It streams a plan whose tools can begin before its end, gives a form to a server that takes one, and
limits its own requests if that is quicker. It waits for other answers as a whole, because nothing
that it does next could use a part of one; if a server notices a client that leaves only by a broken
stream, calls that may be given up are streamed.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx
from answering import Json
from gbnf import gbnf_of
from program_arrivals import PeerArrivals

T = TypeVar("T")

PATIENCE_S = 3600.0
IDLE_S = 2.0  # servers close a connection that was idle for 5 s; a request then meets a closed one
_NO_LIMIT = 1_000_000


class Server:
    """A server of chat completions.

    Args:
        settings: `url` (those of replicas are separated by commas), `model`, `body` (fields of
            every request, which force lengths and keep prompts), `form_body` (fields that hold an
            answer to a pattern in place of the forced length, with `{pattern}` for it, or `{gbnf}`
            for it as a grammar; {} if the server takes none), `width` (most requests at once; 0
            for no limit) and `streams_what_may_end`.
    """

    def __init__(self, settings: Json) -> None:
        self.urls: list[str] = settings["url"].split(",")
        self.model = settings["model"]
        self.body: Json = settings.get("body", {})
        self.form_body: Json = settings.get("form_body", {})
        self.streams_what_may_end = bool(settings.get("streams_what_may_end"))
        self.turns = asyncio.Semaphore(settings.get("width") or _NO_LIMIT)
        self.http = httpx.AsyncClient(
            timeout=httpx.Timeout(PATIENCE_S, pool=None),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_S
            ),
            trust_env=False,  # no proxy between this process and a server on this machine
        )

    def url(self, messages: list[Json]) -> str:
        """Address for a chat: of several replicas, the one of the hash of its beginning.

        A chat begins with the instructions that its program shares with others, and with the
        question: by the first alone, all programs of a kind would meet on one replica.
        """
        root = "\n".join(message["content"] for message in messages[:2])
        return self.urls[zlib.crc32(root.encode()) % len(self.urls)]

    def fields(self, call: Json) -> Json:
        """Fields of a request beside its messages: its length, and its form if it has one."""
        pattern = call.get("pattern")
        body = {"max_tokens": call["tokens"], **self.body}
        if "output" in call and "seed" in call:  # which of the samples of its prompt was recorded
            body |= {"temperature": 1, "top_k": 1, "seed": call["seed"]}
        if pattern and self.form_body:
            body.pop("ignore_eos", None)
            body |= _filled(self.form_body, pattern)
        return body

    async def answer(
        self,
        call: Json,
        messages: list[Json],
        watch: Stopwatch,
        *,
        may_end: bool,
        plan: PlanProgress | None = None,
    ) -> Json:
        """Request a call's tokens; returns `text`, `first_s` and the server's `usage`.

        Args:
            call: The call.
            messages: Messages of the call.
            watch: Clock of the play.
            may_end: True for a call that may be given up.
            plan: Progress to be reported while the answer is written, which is then streamed.
        """
        body = {"model": self.model, "messages": messages, **self.fields(call)}
        async with self.turns:
            if plan is not None or (may_end and self.streams_what_may_end):
                return await self._streamed(body, watch, plan)
            return await self._whole(body)

    def _chat_url(self, body: Json) -> str:
        return f"{self.url(body['messages'])}/chat/completions"

    async def _whole(self, body: Json) -> Json:
        response = await self.http.post(self._chat_url(body), json=body)
        _check(response.status_code, response.content)
        answer = response.json()
        message = answer["choices"][0]["message"]
        return {"text": message["content"] or "", "first_s": None, "usage": answer.get("usage")}

    async def _streamed(self, body: Json, watch: Stopwatch, plan: PlanProgress | None) -> Json:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        texts: list[str] = []
        usage: Json | None = None
        first_s: float | None = None
        async with self.http.stream("POST", self._chat_url(body), json=body) as response:
            if response.status_code != 200:
                _check(response.status_code, await response.aread())
            async for chunk in _events(response):
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices") or ():
                    text = (choice.get("delta") or {}).get("content")
                    if text:
                        first_s = watch.now_s() if first_s is None else first_s
                        texts.append(text)
                        if plan is not None:
                            plan.add(text)
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


def _filled(value: Any, pattern: str) -> Any:
    """Fields with a pattern in its place."""
    if isinstance(value, dict):
        return {name: _filled(one, pattern) for name, one in value.items()}
    spelled = {"{pattern}": lambda: pattern, "{gbnf}": lambda: gbnf_of(pattern)}
    return spelled[value]() if isinstance(value, str) and value in spelled else value


class PlanProgress:
    """How much of a plan has been written, for tools that begin within it.

    Args:
        in_words: True if each token is a word, so that a piece of several tokens is counted right;
            otherwise each piece of the stream counts as one token, as servers send them.
    """

    def __init__(self, *, in_words: bool) -> None:
        self._in_words = in_words
        self._tokens = 0
        self._more = asyncio.Event()

    def add(self, text: str) -> None:
        """Report more text."""
        self._tokens += text.count(" ") if self._in_words else 1
        self._more.set()
        self._more = asyncio.Event()

    async def wait(self, tokens: int) -> None:
        """Wait until so many tokens have been written."""
        while self._tokens < tokens:
            await self._more.wait()


class Stopwatch:
    """Seconds since the play began."""

    def __init__(self) -> None:
        self._began_at = time.perf_counter()

    def start(self) -> None:
        """The play begins."""
        self._began_at = time.perf_counter()

    def now_s(self) -> float:
        """Seconds since then."""
        return time.perf_counter() - self._began_at


class ProgramInPlay:
    """One program while it is played.

    Attributes:
        texts: Output or answer of each ended node.
        watch: Clock of the play.
        sample: The program's sample on the wire.
    """

    def __init__(self, program: Json, watch: Stopwatch) -> None:
        self.texts: dict[str, str] = {}
        self.watch = watch
        self.sample: Json = {
            "name": program["name"],
            "arrived_s": program["at_s"],
            "ended_s": 0.0,
            "calls": [],
            "waits": [],
            "given_up": [],
            "error": "",
        }

    def messages(self, call: Json) -> list[Json]:
        """The messages of a call, with all that they quote."""
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
        """Record the answer of a call."""
        usage = answer["usage"] or {}
        details = usage.get("prompt_tokens_details") or {}
        guessed = usage.get("completion_tokens_details") or {}
        drafts = guessed.get("accepted_prediction_tokens")
        known = {} if drafts is None else {"drafted_tokens": drafts, "drafts": {"prompt": drafts}}
        self.texts[call["name"]] = answer["text"]
        self.sample["calls"].append(
            {
                **known,
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
        """Sleep for a tool's or a person's time; returns the answer."""
        began_s, name, text = self.watch.now_s(), node["name"], str(node["text"])
        await asyncio.sleep(node["seconds"])
        self.texts[name] = text
        wait = {"name": name, "began_s": began_s, "ended_s": self.watch.now_s()}
        self.sample["waits"].append(wait)
        return text

    def end(self) -> None:
        """Record that the result is there."""
        self.sample["ended_s"] = self.watch.now_s()


async def vote(tasks: dict[str, asyncio.Task[T]], least: int, played: ProgramInPlay) -> list[str]:
    """Wait until enough calls have ended, and give up the others; returns those that ended."""
    missing = set(tasks.values())
    try:
        while missing and len(tasks) - len(missing) < least:
            done, missing = await asyncio.wait(missing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in missing:
            task.cancel()
    for name, task in tasks.items():
        if task in missing:
            played.sample["given_up"].append(name)
    return [name for name, task in tasks.items() if task not in missing]


class PlainClient(ABC):
    """A client that plays programs; it answers `open` and `play`."""

    @abstractmethod
    async def open(self, settings: Json) -> Json:
        """Connect; returns the versions of its libraries."""

    @abstractmethod
    def prepare(self, program: Json, played: ProgramInPlay) -> Callable[[], Awaitable[None]]:
        """Make a program ready, as a client has it before its input comes."""

    async def play(
        self, programs: list[Json], programs_at_once: int = 0, arrivals: str = ""
    ) -> Json:
        """Play every program from its arrival on, all in this event loop.

        Args:
            programs: The programs.
            programs_at_once: Most programs under way; others wait in the order of arrival. 0 lets
                all of them begin.
            arrivals: Address of the bench that rings for them; "" goes by their seconds.
        """
        watch = Stopwatch()
        played = [ProgramInPlay(program, watch) for program in programs]
        ready = [self.prepare(*pair) for pair in zip(programs, played, strict=True)]
        turns = asyncio.Semaphore(programs_at_once or _NO_LIMIT)
        watch.start()
        coming = PeerArrivals([program["at_s"] for program in programs], watch.now_s)

        async def one(at: int) -> Json:
            sample = played[at].sample
            try:
                sample["arrived_s"] = await coming.wait(at)
                async with turns:
                    await ready[at]()
            except Exception as error:
                sample["error"] = f"{type(error).__name__}: {error}"[:500]
            coming.end(at)
            return sample

        async with coming.followed(arrivals):
            return {"samples": await asyncio.gather(*(one(at) for at in range(len(programs))))}
