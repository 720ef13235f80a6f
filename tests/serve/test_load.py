"""The load of the server, as clients and monitors read it."""

import asyncio
import re
from collections import Counter
from dataclasses import replace

import anyio
import httpx
import pytest

from agentrt import RemoteEngineConfig
from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.engine_kind import KindLoad, engine_kind
from agentrt.protocol.step_output import DraftCount
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.engine_load import EngineLoad, load_in
from agentrt.remote.admission.request_rates import pacer_of
from agentrt.remote.http import Http
from agentrt.remote.load_watch import LoadWatch
from agentrt.serve import ServeConfig, serving
from agentrt.serve.metrics import ServerLoad, metrics_text
from tests.serve.conftest import PATIENCE_S, client
from tests.serve.test_through_runtime import KEYS, Client, Rig

SAMPLE = re.compile(r'(?:vllm|agentrt):\w+\{model_name="(?:[^"\\\n]|\\.)*"\} \d+(\.\d+)?')


def door(kind: str = "agentrt") -> KindLoad:
    found = engine_kind(kind).load
    assert found is not None
    return found


def test_each_metric_has_its_help_its_type_and_its_value():
    text = metrics_text(ServerLoad(2, 1, 0.25, 4096, 64, 1 << 20), 'a "name"\\\n')
    lines = text.splitlines()
    assert any(one.startswith("agentrt:kv_cache_bytes{") and "1048576" in one for one in lines)
    assert text.endswith("\n")
    for said, kind, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name = sample.partition("{")[0]
        assert said.startswith(f"# HELP {name} ")
        assert kind == f"# TYPE {name} gauge"
        assert SAMPLE.fullmatch(sample)
    assert load_in(text, door()) == EngineLoad(2.0, 1.0, 0.25)


def test_a_client_of_vllm_reads_the_same_load():
    found = load_in(metrics_text(ServerLoad(2, 1, 0.25, 4096, 64), "tiny"), door("vllm"))
    assert found == EngineLoad(2.0, 1.0, 0.25)


def test_requests_run_or_wait():
    rig = Rig(max_running=2)

    async def body(client: Client) -> list[str]:
        headers = {"authorization": f"Bearer {KEYS[0].secret}"}
        found = []
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(client.ask, 0, f"{number}")
            await anyio.sleep(1.0)
            found.append((await client.http.get("/metrics", headers=headers)).text)
            without = await client.http.get("/metrics")
            assert without.status_code == 401
        found.append((await client.http.get("/metrics", headers=headers)).text)
        return found

    during, after = rig.main(body)
    assert load_in(during, door()) == EngineLoad(2.0, 3.0)
    assert "agentrt:max_num_seqs{" in during
    assert load_in(after, door()) == EngineLoad(0.0, 0.0)


def test_a_client_learns_the_room_of_the_server(portal, own_server_url, ask):
    engine = RemoteEngineConfig(kind="agentrt", address=own_server_url, model="tiny")

    async def main() -> LoadWatch:
        queue = AdmissionQueue(pacer_of(engine), clock=MonotonicClock())
        http = Http(engine, queue=queue)
        looked = asyncio.Event()
        watch = LoadWatch(http, door(), queue.pacer, lambda room: looked.set())
        watch.start()
        with anyio.fail_after(PATIENCE_S):
            await looked.wait()
        await watch.aclose()
        await http.aclose()
        return watch

    async def described() -> httpx.Response:
        async with client(own_server_url) as http:
            return await http.get("/models")

    room = portal.call(main).room
    (model,) = portal.call(described).json()["data"]
    assert model["max_model_len"] > 0
    assert room.requests == model["max_num_seqs"] > 0
    assert room.kv_tokens == model["kv_cache_tokens"] > 0
    assert model["kv_cache_bytes"] > model["kv_cache_tokens"]


def test_kv_in_use_is_that_of_requests(portal, own_server, wire):
    """Half of an answer has come; what stays in the cache behind it does not count."""

    async def main() -> list[EngineLoad | None]:
        found: list[EngineLoad | None] = []
        async with own_server() as url, wire.client(url) as http:
            question = wire.body("word " * 200, max_tokens=400, ignore_eos=True, stream=True)
            root = url.removesuffix("/v1")
            async with http.stream("POST", "/chat/completions", json=question) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {") and len(found) == 0:
                        found.append(load_in((await http.get(f"{root}/metrics")).text, door()))
            found.append(load_in((await http.get(f"{root}/metrics")).text, door()))
        return found

    during, after = portal.call(main)
    assert during is not None
    assert (during.running, during.waiting) == (1.0, 0.0)
    assert 0.0 < during.kv_share < 1.0
    assert after == EngineLoad(0.0, 0.0, 0.0)


def test_tokens_of_experts_are_counters_by_layer_and_expert():
    text = metrics_text(ServerLoad(2, 1, expert_tokens=((4, 0), (1, 3))), "tiny")
    assert "# TYPE agentrt:expert_tokens_total counter" in text
    samples = [one for one in text.splitlines() if one.startswith("agentrt:expert_tokens")]
    assert samples[0] == 'agentrt:expert_tokens_total{model_name="tiny",layer="0",expert="0"} 4'
    assert samples[3] == 'agentrt:expert_tokens_total{model_name="tiny",layer="1",expert="1"} 3'
    assert load_in(text, door()) == EngineLoad(2.0, 1.0, 0.0)


def test_drafted_tokens_are_counters_by_source() -> None:
    """Under vLLM's names, whose sums over the sources they are."""
    drafts = (DraftCount("site", 30, 10), DraftCount("prompt", 0, 5))
    lines = metrics_text(ServerLoad(2, 1, drafts=drafts), "tiny").splitlines()
    drafted = "vllm:spec_decode_num_draft_tokens_total"
    accepted = "vllm:spec_decode_num_accepted_tokens_total"
    label = 'model_name="tiny",source'
    assert f"# TYPE {drafted} counter" in lines
    assert f'{drafted}{{{label}="site"}} 40' in lines
    assert f'{drafted}{{{label}="prompt"}} 5' in lines
    assert f'{accepted}{{{label}="site"}} 30' in lines
    assert f'{accepted}{{{label}="prompt"}} 0' in lines
    assert "spec_decode" not in metrics_text(ServerLoad(2, 1), "tiny")


@pytest.mark.parametrize("regex", ["", "[ab]{40}"])
def test_drafts_of_answers_add_up(regex, portal, tiny, wire) -> None:
    """What the answers say of drafts is what `/metrics` says, less the bytes that a form forces."""
    said: list[dict[str, int]] = []
    drafting = replace(tiny, speculate_tokens=7)
    more = {"structured_outputs": {"regex": regex}} if regex else {}

    async def main() -> str:
        opening = open_runtime(engine=drafting, place="thread")
        config = ServeConfig("tiny", port=0, grace_s=1)
        async with serving(config, opening) as url, wire.client(url) as http:
            for _ in range(3):
                asked = wire.body("Say it.", max_tokens=40, ignore_eos=not regex, **more)
                answer = (await http.post("/chat/completions", json=asked)).json()
                said.append(answer["usage"]["completion_tokens_details"])
            metrics: str = (await http.get(f"{url.removesuffix('/v1')}/metrics")).text
            return metrics

    text = portal.call(main)
    found = re.findall(r'spec_decode_num_(\w+)_tokens_total{.*source="(\w+)"} (\d+)', text)
    guessed: Counter[str] = Counter()
    for what, source, count in found:
        guessed[what] += int(count) * (source != "grammar")
    accepted = sum(one["accepted_prediction_tokens"] for one in said)
    rejected = sum(one["rejected_prediction_tokens"] for one in said)
    assert accepted >= 40
    assert guessed == {"draft": accepted + rejected, "accepted": accepted}


def test_the_expert_cache_has_metrics_where_memory_is_bounded() -> None:
    text = metrics_text(ServerLoad(2, 1, expert_hits=30, expert_misses=10), "tiny")
    assert 'agentrt:expert_cache_hits_total{model_name="tiny"} 30' in text
    assert 'agentrt:expert_cache_misses_total{model_name="tiny"} 10' in text
    assert "expert_cache" not in metrics_text(ServerLoad(2, 1), "tiny")
