"""KV events of a fleet: a continuation goes where its blocks are, and not where they were."""

import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from agentrt import RemoteEngineConfig, UsageError, chat, program
from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.engines.kv_events import KvEvents
from agentrt.base.engines.remote_engine_config import FleetMember
from agentrt.base.errors import NotInstalled
from agentrt.remote import RemoteEngines
from agentrt.runtime import Runtime
from tests.remote.fleet.fleet_servers import TIMES
from tests.remote.hostile_server import DONE, MODELS, content, event, head, serving

pytest.importorskip("zmq", reason="ZeroMQ is not installed: pip install 'agentrt[kv-events]'")

from tests.remote.fleet.kv_publisher import publisher

WORDS = " ".join(f"word{number}" for number in range(600))
BLOCK = 16


@program
async def say(what: str) -> str:
    return await chat().user(what).generate(max_tokens=4)


class IdServer:
    """A vLLM that notes prompts of token ids, or of messages."""

    def __init__(self):
        self.prompts = []

    async def __call__(self, path, body, writer):
        if path.endswith("/completions"):
            asked = json.loads(body)
            self.prompts.append(asked.get("prompt") or asked["messages"])
            ids = {"choices": [{"index": 0, "text": "", "token_ids": [1], "finish_reason": None}]}
            first = ids if "prompt" in asked else content("hi")
            writer.write(head() + event(first) + event(content("", "stop")) + DONE)
        elif path.endswith(("/models", "/health")):
            writer.write(head(kind="application/json") + MODELS)
        else:
            writer.write(head("404 Not Found"))
        await writer.drain()


class Rig:
    """A runtime on a fleet of two servers, each with a publisher of events."""

    def __init__(self, servers, publishers, backend, runtime):
        self.servers, self.publishers = servers, publishers
        self.backend, self.runtime = backend, runtime

    async def asked(self, what: str) -> int:
        """Run the program; returns which server had it."""
        before = [len(one.prompts) for one in self.servers]
        await self.runtime.run(say, what)
        (here,) = (at for at, one in enumerate(self.servers) if len(one.prompts) > before[at])
        return here

    async def publish(self, at: int, *events) -> None:
        """Publish a batch, and wait until it is taken."""
        await self.publishers[at].publish(*events)
        (feed,) = (
            one for name, one in self.backend.feeds.subscriptions.items() if name == self.names[at]
        )
        with anyio.fail_after(30):
            while feed.batches < len(self.publishers[at].kept):
                await anyio.lowlevel.checkpoint()

    @property
    def names(self):
        return list(self.backend.feeds.subscriptions)


@asynccontextmanager
async def rig(tokenizer: str):
    async with AsyncExitStack() as stack:
        servers = [IdServer(), IdServer()]
        published = [await stack.enter_async_context(publisher()) for _ in servers]
        members = [
            FleetMember(
                RemoteEngineConfig(
                    kind="vllm",
                    address=await stack.enter_async_context(serving(server, doors=True)),
                    model="m",
                    tokenizer=tokenizer,
                    kv_events=source.source,
                )
            )
            for server, source in zip(servers, published, strict=True)
        ]
        clock = MonotonicClock()
        engine = RemoteEngineConfig(members=tuple(members), warm_ahead=False)
        remotes = RemoteEngines(clock, {"AGENTRT_CAPABILITIES": "off"}, {}, "rwa", TIMES)
        backend, codec = remotes.backend(engine), remotes.codec(engine)
        runtime = Runtime({"default": (backend, codec)}, clock=clock)
        async with runtime:
            for one in published:
                await one.subscribed()
            yield Rig(servers, published, backend, runtime)


def blocks_of(prompt):
    """Events of vLLM for a prompt that was computed, and for its eviction, the end first."""
    count = len(prompt) // BLOCK
    names = list(range(1, count + 1))
    stored = ["BlockStored", names, None, prompt[: count * BLOCK], BLOCK, None, "GPU"]
    return stored, [["BlockRemoved", [name], "GPU"] for name in reversed(names)]


@pytest.mark.parametrize("is_evicted", [False, True], ids=["held", "evicted"])
def test_a_continuation_goes_by_load_once_its_blocks_are_gone(portal, tiny, is_evicted):
    async def main():
        async with rig(str(tiny.model_path)) as fleet:
            here = await fleet.asked(WORDS)
            stored, removed = blocks_of(fleet.servers[here].prompts[-1])
            await fleet.publish(here, stored, *(removed if is_evicted else ()))
            return here, await fleet.asked(WORDS + " and more")

    first, second = portal.call(main)
    assert (second != first) is is_evicted


@pytest.mark.parametrize("is_held", [False, True], ids=["cleared", "computed again"])
def test_what_a_server_computes_for_any_client_is_held(portal, tiny, is_held):
    """The server has the most work, so that nothing else leads there."""

    async def main():
        async with rig(str(tiny.model_path)) as fleet:
            here = await fleet.asked(WORDS)
            stored, _ = blocks_of(fleet.servers[here].prompts[-1])
            assert await fleet.asked(WORDS[::-1][:1000]) != here
            await fleet.publish(here, ["AllBlocksCleared"], *([stored] if is_held else ()))
            return here, await fleet.asked(WORDS + " and more")

    first, second = portal.call(main)
    assert (second == first) is is_held


def test_with_messages_only_a_cleared_cache_counts(portal, caplog):
    async def main():
        async with rig("") as fleet:
            here = await fleet.asked(WORDS)
            await fleet.publish(here, *blocks_of(list(range(320)))[1])
            there = await fleet.asked(WORDS + " and more")
            await fleet.publish(here, ["AllBlocksCleared"])
            return here, there, await fleet.asked(WORDS + " and some more")

    first, second, third = portal.call(main)
    assert (second, third) == (first, 1 - first)
    assert "of KV events only a cleared cache counts there" in caplog.text


def test_without_zeromq_the_setting_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "zmq", None)
    engine = RemoteEngineConfig(
        kind="vllm", addresses=("http://a:1", "http://b:1"), kv_events=KvEvents("tcp://*:1")
    )
    with pytest.raises(NotInstalled, match="kv-events"):
        RemoteEngines(MonotonicClock(), {"AGENTRT_CAPABILITIES": "off"}, {}).backend(engine)


def test_the_setting_stands_in_a_file(tmp_path):
    path = tmp_path / "agentrt.toml"
    path.write_text(
        '[engines.pool]\nkind = "sglang"\naddresses = ["http://gpu1:8000", "http://[::1]:8000"]\n'
        'kv_events = { endpoint = "tcp://*:5557", replay = "tcp://log:5558" }\n'
    )
    engines = [one.engine for one in read_engine_file(path).engines["pool"].workers]
    found = [one.kv_events.at(one.url) for one in engines if one.kv_events is not None]
    assert found == [
        KvEvents("tcp://gpu1:5557", "tcp://log:5558"),
        KvEvents("tcp://[::1]:5557", "tcp://log:5558"),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('kind = "vllm"\nkv_events = { endpoint = "gpu1:5557" }', "endpoint: 'gpu1:5557' is no"),
        ('kind = "vllm"\nkv_events = { endpoint = "" }', "is no address of events"),
        ('kind = "vllm"\nkv_events = { replay = "tcp://*:1" }', "endpoint"),
        ('kind = "vllm"\nkv_events = "tcp://*:1"', "kv_events"),
        ('kind = "openai"\nkv_events = { endpoint = "tcp://*:1" }', "publishes none"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(tmp_path, lines, said):
    path = tmp_path / "agentrt.toml"
    path.write_text(f'[engines.one]\naddress = "http://h:1"\n{lines}\n')
    with pytest.raises(UsageError, match=said):
        read_engine_file(path)
