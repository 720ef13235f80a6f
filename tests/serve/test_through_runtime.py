"""Plain requests are runs: they share, wait, are traced and are lost as those of programs.

The engine answers from a script, in virtual time; requests reach the application without sockets.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

from agentrt.analysis import RunRecord, RunRecorder, split
from agentrt.base.config import SchedulerConfig
from agentrt.protocol.events import RunStarted, Scheduled
from agentrt.runtime import Runtime
from agentrt.serve import ApiKey, Application, ServedModel
from agentrt.telemetry.build import build
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

KEYS = (ApiKey("one", "secret-1"), ApiKey("two", "secret-2"))
TEXT = "y" * 20


class Rig:
    """A server over a scripted engine, and the records of its runs."""

    def __init__(self, text: str = TEXT, **engine: Any) -> None:
        self.clock = LoopClock()
        speeds = {"decode_tokens_per_s": 10.0, "seeds": True} | engine
        self.backend = ScriptedBackend(lambda request, prompt: text, clock=self.clock, **speeds)
        self.records: list[RunRecord] = []
        self.events: list[Any] = []

    def on_events(self, events: Any) -> None:
        self.events += events

    def main(self, body: Callable[["Client"], Awaitable[Any]], keys: Any = KEYS) -> Any:
        async def main() -> Any:
            observers: list[Any] = [RunRecorder(self.records.append), self]
            scheduler = SchedulerConfig(policy="fcfs")
            engines = {"default": (self.backend, None)}
            async with Runtime(
                engines, clock=self.clock, observers=observers, scheduler=scheduler
            ) as runtime:
                model = ServedModel(runtime, name="tiny", clock=self.clock)
                transport = httpx.ASGITransport(Application(model, keys))
                async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
                    return await body(Client(http))

        return run_virtual(main)


class Client:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.ended: list[str] = []

    async def ask(self, key: int = 0, text: str = "Why?", **fields: Any) -> httpx.Response:
        """A greedy request under a key; its text is noted when it ends."""
        messages = [{"role": "user", "content": text}]
        body = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 40}
        headers = {"authorization": f"Bearer {KEYS[key].secret}"}
        response = await self.http.post("/v1/chat/completions", json=body | fields, headers=headers)
        self.ended.append(text)
        return response


@pytest.mark.parametrize(
    ("second", "requests"),
    [
        ({}, 1),
        ({"stream": True}, 1),
        ({"key": 1}, 2),
        ({"cache_salt": "mine"}, 2),
        ({"temperature": 1.0}, 2),
    ],
)
def test_like_requests_of_one_key_are_coalesced(second: Any, requests: int) -> None:
    rig = Rig()

    async def body(client: Client) -> None:
        found = []

        async def ask(**fields: Any) -> None:
            found.append(await client.ask(**fields))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.5)
            tasks.start_soon(lambda: ask(**second))
        assert [one.status_code for one in found] == [200, 200]
        assert all(TEXT[:5] in one.text for one in found)

    rig.main(body)
    assert len(rig.backend.seen.requests) == requests
    assert len([one for one in rig.events if isinstance(one, RunStarted)]) == 2


def test_a_client_that_leaves_does_not_end_what_another_shares() -> None:
    rig = Rig()

    async def body(client: Client) -> Any:
        async with anyio.create_task_group() as tasks:
            leaves = anyio.CancelScope()

            async def first() -> None:
                with leaves:
                    await client.ask()

            tasks.start_soon(first)
            await anyio.sleep(0.5)
            second = client.ask()
            tasks.start_soon(_later, 0.5, leaves.cancel)
            return (await second).json()

    told = rig.main(body)
    assert told["choices"][0]["message"]["content"] == TEXT
    assert len(rig.backend.seen.requests) == 1
    assert not rig.backend.seen.cancels
    assert sorted(record.outcome for record in rig.records) == ["cancelled", "ok"]


async def _later(seconds: float, do: Callable[[], None]) -> None:
    await anyio.sleep(seconds)
    do()


@pytest.mark.parametrize(("key", "place"), [(0, 13), (1, 5)])
def test_many_requests_of_one_key_do_not_delay_another(key: int, place: int) -> None:
    """Four fit the memory at once, for two seconds each; the late one comes while eight wait."""
    rig = Rig(kv_tokens=180)

    async def body(client: Client) -> list[str]:
        for number in range(3):  # taught how much a request needs
            await client.ask(text=f"{number:04d}")
        client.ended.clear()
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(client.ask, 0, f"{number:04d}")
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(1.0)
            tasks.start_soon(client.ask, key, "late")
        return client.ended

    ended = rig.main(body)
    held = [e for e in rig.events if isinstance(e, Scheduled) and e.decision == "held"]
    assert held, "admission control holds what does not fit"
    assert ended.index("late") + 1 == place, ended


def test_a_request_leaves_a_record_whose_split_sums() -> None:
    rig = Rig(prefill_tokens_per_s=100.0)

    async def body(client: Client) -> Any:
        return (await client.ask(key=1)).json()

    told = rig.main(body)
    (record,) = rig.records
    assert told["id"] == f"chatcmpl-{record.run_id}", "a trace is found by the answer's id"
    (started,) = [one for one in rig.events if isinstance(one, RunStarted)]
    assert (started.program, started.tenant) == ("chat_completion", "two")
    found = split(record)
    assert sum(found.parts().values()) == pytest.approx(record.compound_s)
    assert found.decode == pytest.approx(1.9)
    assert found.prefill > 0
    assert found.unattributed == pytest.approx(0.0, abs=1e-9)
    names = [span.name for span in build(record).spans]
    assert any("chat_completion" in name for name in names)
    assert not any("secret" in repr(one) for one in rig.events)


def test_what_an_engine_loses_goes_on_and_what_comes_next_is_served() -> None:
    rig = Rig()

    async def body(client: Client) -> list[Any]:
        found: list[Any] = []

        async def ask(stream: bool, text: str) -> None:
            found.append(await client.ask(text=text, stream=stream))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, False, "lost")
            await anyio.sleep(0.5)
            tasks.start_soon(ask, True, "lost in a stream")
            await anyio.sleep(0.5)
            rig.backend.lose_engine()
        await ask(False, "next")
        rig.backend.lose_engine(restarting=False)
        await ask(False, "refused")
        found.append(await client.http.get("/health"))
        return found

    lost, stream, following, refused, health = rig.main(body)
    assert [one.status_code for one in (lost, stream, following)] == [200, 200, 200]
    assert lost.json()["choices"][0]["message"]["content"] == TEXT
    pieces = [json.loads(line[6:]) for line in stream.text.splitlines() if line[:7] == "data: {"]
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in pieces) == TEXT
    assert following.json()["choices"][0]["message"]["content"] == TEXT
    assert [one.status_code for one in (refused, health)] == [503, 503]
    assert health.json() == {"status": "down", "under_way": 0}


def test_without_keys_all_clients_share() -> None:
    rig = Rig()

    async def body(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ask)
            tasks.start_soon(client.ask, 1)

    rig.main(body, keys=())
    assert len(rig.backend.seen.requests) == 1


@pytest.mark.parametrize("constraint", [{}, {"structured_outputs": {"regex": "y*z"}}])
def test_text_is_taken_as_it_comes(constraint: Any) -> None:
    """Neither repetition nor an output that its limit cuts is an error to a plain client."""
    rig = Rig("y" * 2000 + "z")

    async def body(client: Client) -> Any:
        return (await client.ask(max_tokens=1000, **constraint)).json()

    (choice,) = rig.main(body)["choices"]
    assert choice["message"]["content"] == "y" * 1000
    assert choice["finish_reason"] == "length"
