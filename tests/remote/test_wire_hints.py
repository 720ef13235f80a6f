"""Hints to servers: sent in the words of a kind, and not again after they were refused."""

import json
from typing import Any, cast

import pytest

from agentrt import RemoteEngineConfig, UsageError, chat, fan, gather, program
from agentrt.app import open_runtime
from agentrt.runtime import RunOptions
from tests.remote.hostile_server import DONE, content, event, head, serving

MODELS = json.dumps({"data": [{"id": "m", "max_model_len": 512}]}).encode()
REFUSAL = json.dumps(
    {"error": {"message": "Got priority -512 but Priority scheduling is not enabled."}}
).encode()


class NotingServer:
    """A server that notes the bodies of requests, and may refuse priorities."""

    def __init__(self, *, refuses=False):
        self.refuses = refuses
        self.bodies, self.refused = [], 0

    async def __call__(self, path, body, writer):
        if path.endswith("/models"):
            writer.write(head(kind="application/json") + MODELS)
        elif self.refuses and json.loads(body).get("priority"):
            self.refused += 1
            writer.write(head("400 Bad Request", "application/json") + REFUSAL)
        else:
            self.bodies.append(json.loads(body))
            writer.write(head() + event(content("hi")) + event(content("", "stop")) + DONE)
        await writer.drain()


@program
async def many(count: int) -> list[str]:
    nodes = fan(lambda number: chat().user(f"{number}").generate(max_tokens=8), range(count))
    return list(await gather(*nodes))


def played(portal, server, *, count=1, options=None, **settings):
    async def main():
        async with serving(server) as url:
            engine = RemoteEngineConfig(address=url, model="m", **settings)
            async with open_runtime(engine=engine, models={}) as runtime:
                configured = runtime.with_options(options or RunOptions(priority=1))
                return await configured.run(many, count)

    return portal.call(main)


def test_vllm_gets_the_smallest_number_first_and_the_run_as_session(portal):
    server = NotingServer()
    played(portal, server, kind="vllm")
    (body,) = server.bodies
    assert body["priority"] < -100
    assert len(body["session_id"]) == 16


def test_sglang_gets_the_largest_number_first(portal):
    server = NotingServer()
    played(portal, server, kind="sglang")
    (body,) = server.bodies
    assert body["priority"] > 100
    assert "session_id" not in body


@pytest.mark.parametrize("kind", ["openai", "llama-server", "transformers"])
def test_others_get_none(portal, kind):
    server = NotingServer()
    played(portal, server, kind=kind)
    assert not {"priority", "session_id"} & set(server.bodies[0])


def test_a_setting_says_otherwise(portal):
    turned, silent = NotingServer(), NotingServer()
    played(portal, turned, kind="sglang", priority="smallest")
    assert turned.bodies[0]["priority"] < -100
    played(portal, silent, kind="vllm", priority="off")
    assert "priority" not in silent.bodies[0]
    assert silent.bodies[0]["session_id"]


def test_a_priority_that_is_refused_is_sent_no_more(portal):
    """Also if many requests are refused at the same time."""
    server = NotingServer(refuses=True)
    assert played(portal, server, kind="vllm", count=20) == ["hi"] * 20
    assert 1 <= server.refused <= 20
    assert all("priority" not in body and body["session_id"] for body in server.bodies)
    before = server.refused
    assert before < len(server.bodies) + 1


def test_a_wrong_setting_is_refused():
    with pytest.raises(UsageError, match="no order of priorities"):
        RemoteEngineConfig(address="http://h", priority=cast(Any, "lowest"))


def test_agentrt_gets_the_smallest_number_first_and_the_run_as_session(portal):
    server = NotingServer()
    played(portal, server, kind="agentrt")
    (body,) = server.bodies
    assert body["priority"] < -100
    assert len(body["session_id"]) == 16
