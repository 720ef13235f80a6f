"""Salts of runs: sent in the words of a server that keeps prefixes of different salts apart."""

import json

import pytest

from agentrt import RemoteEngineConfig, Unsupported, chat, program
from agentrt.app import open_runtime
from agentrt.runtime import RunOptions
from tests.remote import strict_sglang
from tests.remote.hostile_server import DONE, MODELS, content, event, head, serving


class StrictServer:
    """An SGLang server that refuses what it would drop; it notes the bodies of requests."""

    def __init__(self):
        self.bodies = []

    async def __call__(self, path, body, writer):
        if path.endswith("/models"):
            writer.write(head(kind="application/json") + MODELS)
        elif wrong := strict_sglang.fault(path, json.loads(body)):
            answer = {"error": {"message": wrong}}
            writer.write(head("400 Bad Request", "application/json") + json.dumps(answer).encode())
        else:
            self.bodies.append(json.loads(body))
            ids = {"choices": [{"index": 0, "text": "", "token_ids": [1], "finish_reason": None}]}
            first = ids if path == "/v1/completions" else content("hi")
            writer.write(head() + event(first) + event(content("", "stop")) + DONE)
        await writer.drain()


@program
async def asked() -> str:
    return await chat().user("?").generate(max_tokens=8)


def played(portal, server, *, cache_salt="", **settings):
    async def main():
        async with serving(server) as url:
            engine = RemoteEngineConfig(address=url, model="m", **settings)
            async with open_runtime(engine=engine, models={}) as runtime:
                await runtime.with_options(RunOptions(cache_salt=cache_salt)).run(asked)

    portal.call(main)


@pytest.mark.parametrize("has_ids", [False, True], ids=["messages", "ids"])
def test_sglang_gets_the_salt_of_a_run(portal, tiny, has_ids):
    server = StrictServer()
    files = {"tokenizer": str(tiny.model_path)} if has_ids else {}
    played(portal, server, kind="sglang", cache_salt="a tenant", **files)
    played(portal, server, kind="sglang", **files)
    salted, plain = server.bodies
    assert salted["cache_salt"] == "a tenant"
    assert "cache_salt" not in plain
    assert ("prompt" in salted) is has_ids


def test_a_server_that_keeps_no_salts_apart_gets_no_request(portal):
    server = StrictServer()
    with pytest.raises(Unsupported, match="prefixes of different salts"):
        played(portal, server, kind="llama-server", cache_salt="a tenant")
    assert not server.bodies
