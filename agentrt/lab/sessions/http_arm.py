"""Sessions played on a server of chat completions, as their harness would ask it.

Answers are streamed. The recorded answer, not the streamed one, stands in the next prompt, so that
all servers compute the same. `ignore_eos` asks for answers of the recorded length; servers that do
not know it may answer in fewer tokens, which the samples show.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from agentrt.base.exception_groups import root_of
from agentrt.lab.errors import BenchFailed
from agentrt.lab.sessions.samples import (
    AgentSample,
    TurnAnswer,
    TurnSample,
    Watch,
    turn_sample,
)
from agentrt.lab.workloads.agent_session import (
    AgentSession,
    AgentTurn,
    wire_message,
    wire_tool,
)
from agentrt.remote.answers.sse import EventStream

Json = dict[str, Any]
_PATIENCE_S = 3600.0
_IDLE_S = 2.0  # servers close a connection that was idle for 5 s; a request then meets a closed one
_MOST_SENDS = 3
"""A server may close a connection while a request is on its way; good clients send it again."""
_OUTPUT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls")
EXACT_LENGTHS: Json = {"temperature": 0, "ignore_eos": True}
"""Fields of each request by which an answer has exactly `max_tokens` tokens."""


class HttpArm:
    """A server of chat completions.

    Args:
        http: Client with the address of the API as its base.
        model: Name of the model in requests.
        body: Fields of every request.
    """

    def __init__(self, http: httpx.AsyncClient, model: str, body: Mapping[str, Any]) -> None:
        self._http = http
        self._model = model
        self._body = body

    async def play(self, session: AgentSession, watch: Watch) -> AgentSample:
        """Play a session from now on; a failure ends it and stands in its sample."""
        arrived_s = watch.now_s()
        turns: list[TurnSample] = []
        error = ""
        try:
            await self._play(session, watch, turns)
        except* (BenchFailed, httpx.HTTPError, ValueError) as failures:  # subagents fail in groups
            first = root_of(failures)
            error = f"{type(first).__name__}: {first}"
        return AgentSample(session.name, arrived_s, watch.now_s(), tuple(turns), error)

    async def _play(self, session: AgentSession, watch: Watch, turns: list[TurnSample]) -> None:
        for number, turn in enumerate(session.turns):
            began_s = watch.now_s()
            answer = await self.answer(turn, watch)
            sample = turn_sample(session.name, number, turn, began_s, watch.now_s(), answer)
            turns.append(sample)
            async with anyio.create_task_group() as tasks:
                for subagent in turn.subagents:
                    tasks.start_soon(self._play, subagent, watch, turns)
            await anyio.sleep(turn.wait_s)

    async def answer(self, turn: AgentTurn, watch: Watch) -> TurnAnswer:
        """Ask for one turn, again if its connection is closed before any answer.

        Raises:
            BenchFailed: The server refused it, or broke off.
            httpx.HTTPError: The server cannot be reached.
        """
        body: Json = {
            "model": self._model,
            "messages": [wire_message(message) for message in turn.messages],
            "max_tokens": turn.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._body,
        }
        if turn.tools:
            body["tools"] = [wire_tool(tool) for tool in turn.tools]
        reading = _AnswerReading(watch)
        sends = 0
        while True:
            sends += 1
            try:
                await self._send(body, reading)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if reading.has_begun or sends == _MOST_SENDS:
                    raise
            else:
                return reading.answer()

    async def _send(self, body: Json, reading: _AnswerReading) -> None:
        """Send a request, and read its answer."""
        async with self._http.stream("POST", "chat/completions", json=body) as response:
            if response.status_code != 200:
                said = (await response.aread())[:300].decode("utf-8", "replace")
                raise BenchFailed(f"the server answered {response.status_code}: {said}")
            async for data in _events(response):
                reading.take(json.loads(data))


class _AnswerReading:
    """An answer while it is streamed.

    Attributes:
        has_begun: Whether the server has sent any of it.
    """

    def __init__(self, watch: Watch) -> None:
        self.has_begun = False
        self._watch = watch
        self._texts: list[str] = []
        self._first_s: float | None = None
        self._usage: Json | None = None
        self._chunks = 0

    def take(self, chunk: Json) -> None:
        """Take one chunk of the stream."""
        self.has_begun = True
        if chunk.get("error"):
            raise BenchFailed(f"the server failed in the middle of an answer: {chunk['error']}")
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            found = [delta[name] for name in _OUTPUT_FIELDS if delta.get(name)]
            if found:
                self._chunks += 1
                if self._first_s is None:
                    self._first_s = self._watch.now_s()
            self._texts += [one if isinstance(one, str) else json.dumps(one) for one in found]

    def answer(self) -> TurnAnswer:
        """The whole answer; without a report of the server, each chunk counts as a token."""
        usage = self._usage or {}
        details = usage.get("prompt_tokens_details") or {}
        return TurnAnswer(
            "".join(self._texts),
            self._first_s,
            usage.get("prompt_tokens"),
            details.get("cached_tokens"),
            usage.get("completion_tokens") or self._chunks,
        )


@asynccontextmanager
async def http_arm(
    url: str,
    model: str = "",
    *,
    body: Mapping[str, Any] = EXACT_LENGTHS,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[HttpArm]:
    """A server as long as the block lasts.

    Args:
        url: Address of its API, such as `http://127.0.0.1:8000/v1`.
        model: Name of the model in requests; "" takes the first that the server lists.
        body: Fields of every request.
        headers: Headers of every request.

    Raises:
        BenchFailed: The server cannot be reached, or lists no model.
    """
    async with httpx.AsyncClient(
        base_url=f"{url.rstrip('/')}/",
        headers=dict(headers or {}),
        timeout=httpx.Timeout(_PATIENCE_S, pool=None),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S
        ),
        trust_env=False,  # a server of this machine or network is not reached through a proxy
    ) as http:
        yield HttpArm(http, model or await _first_model(http, url), body)


async def _first_model(http: httpx.AsyncClient, url: str) -> str:
    try:
        response = await http.get("models")
        found = response.json()["data"][0]["id"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise BenchFailed(
            f"{url} lists no model: {type(error).__name__}: {error}",
            hint="Give the address of the API, which ends with /v1 mostly, and --model",
        ) from error
    return str(found)


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    stream = EventStream()
    async for chunk in response.aiter_bytes():
        for data in stream.feed_data(chunk):
            if data != "[DONE]":
                yield data
    for data in stream.flush():
        if data != "[DONE]":
            yield data
