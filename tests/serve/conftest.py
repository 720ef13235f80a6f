"""A client of our own server, and servers with settings of their own."""

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from agentrt.app import open_runtime
from agentrt.base.config import SchedulerConfig
from agentrt.prompt import Codec
from agentrt.serve import ServeConfig, serving

PATIENCE_S = 300  # a hang ends the test; nothing is measured


def body(text: str = "Say something.", **fields: Any) -> dict[str, Any]:
    """A request: greedy, and short."""
    messages = [{"role": "user", "content": text}]
    return {
        "model": "tiny",
        "messages": messages,
        "temperature": 0,
        "max_tokens": 8,
        **fields,
    }


def client(url: str, **options: Any) -> httpx.AsyncClient:
    """A client of the server at `url`."""
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False, **options)


def events(text: str) -> list[dict[str, Any]]:
    """The JSON of a stream's events."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@pytest.fixture
def ask(portal, own_server_url) -> Callable[..., httpx.Response]:
    """Posts a request; `stream` and all other fields as they are."""

    def post(**fields: Any) -> httpx.Response:
        async def main() -> httpx.Response:
            async with client(own_server_url) as one:
                return await one.post("/chat/completions", json=body(**fields))

        response: httpx.Response = portal.call(main)
        return response

    return post


@pytest.fixture
def own_server(tiny):
    """A server for one test, with settings of its own; gives its address."""

    @asynccontextmanager
    async def opened(hurry: Any = None, **settings: Any):
        settings = {"port": 0, "grace_s": 1, **settings}
        config = ServeConfig("tiny", **settings)
        scheduler = SchedulerConfig(policy="fcfs")
        opening = open_runtime(engine=tiny, place="thread", scheduler=scheduler)
        with anyio.fail_after(PATIENCE_S):
            async with serving(config, opening, hurry=hurry) as url:
                yield url

    return opened


@pytest.fixture(scope="session")
def codec(tiny) -> Codec:
    return Codec.load(tiny.model_path)


@pytest.fixture
def wire():
    """The helpers of this file."""

    class Wire:
        body = staticmethod(body)
        client = staticmethod(client)
        events = staticmethod(events)

    return Wire


@pytest.fixture
def post(portal, own_server_url) -> Callable[..., httpx.Response]:
    """Posts a body as it is: JSON of a dict, or text, or bytes."""

    def post_body(content: Any) -> httpx.Response:
        content = json.dumps(content) if isinstance(content, dict) else content

        async def main() -> httpx.Response:
            async with client(own_server_url) as one:
                headers = {"content-type": "application/json"}
                return await one.post("/chat/completions", content=content, headers=headers)

        response: httpx.Response = portal.call(main)
        return response

    return post_body
