"""A strict server of token ids with a prefix cache of whole blocks, as far as warm-ups need one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from anyio import lowlevel

from agentrt import RemoteEngineConfig
from agentrt.base.clock import MonotonicClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.prompt import Codec
from agentrt.protocol.backend import (
    Backend,
    GenerateRequest,
    HoleFill,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import End, StepDone
from agentrt.remote import RemoteEngines
from agentrt.remote.fleet.fleet_times import FleetTimes
from tests.remote import strict_completions
from tests.remote.hostile_server import DONE, content, event, head, serving

Json = dict[str, Any]
BLOCK = 16
TIMES = FleetTimes(tick_s=0.02, join_s=0.05)


def is_warm_up(body: Json) -> bool:
    return bool(body["max_tokens"] <= 1)


def rendered(messages: list[Json]) -> str:
    text = "".join(f"<{one['role']}>{one['content']}</>" for one in messages)
    return f"{text}<assistant>"


class PrefixServer:
    """Answers completions with one token, and notes their bodies.

    Attributes:
        bodies: Bodies of all requests, in order.
        broken_off: Bodies of requests that the client left.
        gate: Holds warm-ups back until it is set.
        waiting: Requests in its own queue, by its metrics.
        refuses: Why a request is refused with 400, or None.
        chats: Bodies of chat completions.
        shown: Chats whose prompts it has shown.
        render: Its template; an id is a character.
    """

    def __init__(self, refuses: Callable[[Json], str | None] = lambda body: None) -> None:
        self.bodies: list[Json] = []
        self.broken_off: list[Json] = []
        self.gate, self.came = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.waiting = self.running = self.looks = 0
        self.refuses = refuses
        self.blocks: set[tuple[int, ...]] = set()
        self.chats: list[Json] = []
        self.shown: list[Json] = []
        self.render: Callable[[list[Json]], str] = rendered

    @property
    def warm_ups(self) -> list[Json]:
        return [body for body in self.bodies if is_warm_up(body)]

    async def until_came(self, count: int) -> None:
        while len(self.bodies) < count:
            self.came.clear()
            await self.came.wait()

    async def __call__(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path == "/metrics":
            self.looks += 1
            gauges = f"vllm:num_requests_running {self.running}\n"
            gauges += f"vllm:num_requests_waiting {self.waiting}\n"
            writer.write(head(kind="text/plain") + gauges.encode())
        elif path in ("/tokenize", "/apply-template"):
            self.shown.append(json.loads(body))
            text = self.render(self.shown[-1]["messages"])
            shown = {"tokens": list(map(ord, text))} if path == "/tokenize" else {"prompt": text}
            writer.write(head(kind="application/json") + json.dumps(shown).encode())
        elif path.endswith("/chat/completions"):
            self.chats.append(json.loads(body))
            reply = event(content("hi")) + event(content("", "stop")) + DONE
            writer.write(head() + reply)
        elif path.endswith("/completions"):
            await self._complete(json.loads(body), writer)
        else:
            writer.write(head("404 Not Found", more="Content-Length: 0\r\n"))
        await writer.drain()

    async def _complete(self, body: Json, writer: asyncio.StreamWriter) -> None:
        self.bodies.append(body)
        self.came.set()
        wrong = None if isinstance(body["prompt"], str) else strict_completions.fault(body)
        if wrong := wrong or self.refuses(body):
            error = json.dumps({"error": {"message": wrong}}).encode()
            writer.write(head("400 Bad Request", "application/json") + error)
            return
        prompt = (
            list(map(ord, body["prompt"])) if isinstance(body["prompt"], str) else body["prompt"]
        )
        cached = self._cached(prompt)
        if is_warm_up(body):
            writer.write(head())
            await writer.drain()
            await self.gate.wait()
        ends = range(BLOCK, len(prompt) + 1, BLOCK)
        self.blocks |= {tuple(prompt[:end]) for end in ends}
        token: Json = {"index": 0, "text": "x", "token_ids": [7], "finish_reason": "length"}
        if not body["max_tokens"]:
            token = {"index": 0, "text": "", "finish_reason": "length"}
        usage: Json = {"prompt_tokens": len(prompt), "completion_tokens": 1}
        usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
        data = event({"choices": [token]}) + event({"choices": [], "usage": usage}) + DONE
        writer.write((b"" if is_warm_up(body) else head()) + data)

    def _cached(self, prompt: list[int]) -> int:
        cached = 0
        while tuple(prompt[: cached + BLOCK]) in self.blocks and cached + BLOCK < len(prompt):
            cached += BLOCK
        return cached


class Play:
    """A backend under test, with what it has reported.

    Args:
        backend: The backend, started.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.ends: dict[RequestId, End] = {}
        self.over = asyncio.Event()

    async def read(self) -> None:
        async for step in self.backend.events():
            assert isinstance(step, StepDone)
            self.ends |= {end.request_id: end for end in step.ends}
            self.over.set()

    async def idle(self) -> None:
        """Wait until no warm-up is under way."""
        while getattr(self.backend, "warm_ups", 0):
            await lowlevel.checkpoint()

    async def end_of(self, number: int) -> End:
        while RequestId(number) not in self.ends:
            self.over.clear()
            await self.over.wait()
        return self.ends[RequestId(number)]

    def cancel(self, number: int) -> None:
        self.backend.cancel(RequestId(number), "no need")

    def submit(self, number: int, token_ids: range, *, complete: bool = False, **more: Any) -> None:
        self.backend.submit(request(number, token_ids, complete=complete, **more))

    def fill(self, number: int, token_ids: range, *, complete: bool = False) -> None:
        self.backend.fill_hole(RequestId(number), HoleFill(tuple(token_ids), complete))


def request(number: int, token_ids: range, *, complete: bool, **more: Any) -> GenerateRequest:
    found = GenerateRequest(
        RequestId(number),
        RunId("r" * 16),
        NodeId(f"node{number}"),
        "",
        TokenPrompt(tuple(token_ids), complete),
        SamplingParams(max_tokens=8, seed=3),
        info=SchedulingInfo(RequestId(number), demanded=True, run_id=RunId("r" * 16)),
    )
    return replace(found, **more)


@asynccontextmanager
async def playing(
    codec: Codec,
    *servers: PrefixServer,
    wraps: Callable[[Backend], Backend] = lambda one: one,
    **settings: Any,
) -> AsyncIterator[Play]:
    """The backend of a configured engine over these servers; several are a fleet."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(serving(one, doors=True)) for one in servers]
        where: Json = {"address": urls[0]} if len(urls) == 1 else {"addresses": tuple(urls)}
        given: Json = {"kind": "vllm", "model": "m", "tokenizer": str(codec.path)}
        engine = RemoteEngineConfig(**given | where | settings)
        clock = MonotonicClock()
        remotes = RemoteEngines(clock, {"AGENTRT_CAPABILITIES": "off"}, {}, "rwa", TIMES)
        backend = wraps(remotes.backend(engine))
        await backend.start()
        play = Play(backend)
        reading = asyncio.create_task(play.read())
        try:
            yield play
        finally:
            await backend.aclose()
            await reading
