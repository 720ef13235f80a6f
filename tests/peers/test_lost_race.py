"""What a server still computes for a request that has lost a race, by its own counters."""

import dataclasses
import re

import anyio
import httpx
import pytest

from agentrt import RemoteEngineConfig, chat, embedded, program, race, regex
from agentrt.app import open_runtime
from agentrt.protocol.events import NodeFinished
from tests.remote.test_program import Recorder

pytestmark = pytest.mark.peers

RACES = 8
MOST_STEPS = 3
"""Steps of the engine after the race, each of which writes one token for the loser."""

ASK = chat(system="Write letters.").user("Go on.")


@program
async def raced(seed: int) -> str:
    """The shorter of two texts, as soon as it is there."""
    lengths = (10, 900)
    both = [ASK.generate(regex(f"[a-z]{{{one}}}"), max_tokens=900, seed=seed) for one in lengths]
    async with race(both) as finished:
        async for text in finished:
            return text
    raise AssertionError("nothing was written")


async def written_tokens(engine: RemoteEngineConfig) -> int:
    """Tokens that the server has written, once it computes nothing."""
    url = engine.url.removesuffix("/v1") + "/metrics"
    async with httpx.AsyncClient() as client:
        with anyio.fail_after(60):
            while True:
                text = (await client.get(url)).text
                running, tokens = (
                    sum(map(float, re.findall(rf"^vllm:{name}{{[^}}]*}} (\S+)", text, re.M)))
                    for name in ("num_requests_running", "generation_tokens_total")
                )
                if not running:
                    return int(tokens)


@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_a_loser_is_given_up_within_three_steps(engine: RemoteEngineConfig) -> None:
    """Tokens that the server wrote, less those that had come when the race was over."""
    recorder = Recorder()

    async def main() -> list[int]:
        by_ids = dataclasses.replace(engine, tokenizer=str(embedded.path()))
        found = []
        async with open_runtime(engine=by_ids, observers=[recorder]) as runtime:
            await runtime.run(raced, 0)  # grammars are compiled
            before = await written_tokens(engine)
            for seed in range(1, 1 + RACES):
                recorder.events.clear()
                text = await runtime.run(raced, seed)
                assert len(text) == 10
                after = await written_tokens(engine)
                ends = [one for one in recorder.events if isinstance(one, NodeFinished)]
                came = sum(one.ledger.output_tokens for one in ends if one.ledger is not None)
                found.append(after - before - came)
                before = after
        return found

    late = anyio.run(main)
    print("tokens after each race:", late)
    assert max(late) <= MOST_STEPS
