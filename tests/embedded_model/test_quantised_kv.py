"""What the model writes behind its own kind of prompts, with KV in eight bits."""

from dataclasses import replace

import pytest
from batches import encode
from corpus.example import render
from corpus.mix import draw

from agentrt import embedded
from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.protocol.backend import GenerateRequest, TokenPrompt

PROMPTS = 40
NEW_TOKENS = 40


def prompts() -> list[list[int]]:
    """Transcripts up to the last thing that the assistant says."""
    texts = []
    for index in range(PROMPTS):
        example = draw(11, index)
        last = max(at for at, one in enumerate(example.messages) if one["role"] == "assistant")
        texts.append(render(example.messages[:last], example.tools, prompt=True))
    return [encode(text) for text in texts]


def greedy(config: EngineConfig) -> list[list[int]]:
    core = EngineCore(config, FakeClock())
    for number, prompt in enumerate(prompts()):
        core.submit(
            GenerateRequest(
                RequestId(number),
                RunId("run"),
                NodeId(f"n{number}"),
                "test",
                TokenPrompt(tuple(prompt)),
                SamplingParams(max_tokens=NEW_TOKENS),
            )
        )
    written: list[list[int]] = [[] for _ in range(PROMPTS)]
    while core.has_work():
        done = core.step()
        for delta in done.deltas if done is not None else ():
            written[delta.request_id] += delta.token_ids
    core.close()
    return written


@pytest.mark.parametrize("kept", ["int8", "fp8"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_greedy_tokens_stay_nearly_all(dtype, kept, capsys):
    """Tokens up to the first that differs: what comes behind one is another text."""
    how = EngineConfig(embedded.path(), threads=1, dtype=dtype, kv_pages=2048)
    plain, coded = greedy(how), greedy(replace(how, kv_cache_dtype=kept))
    tokens = sum(map(len, plain))
    same = 0
    for one, other in zip(plain, coded, strict=True):
        parts = [at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]]
        same += parts[0] if parts else len(one)
    with capsys.disabled():
        print(f"\n{dtype}: {same} of {tokens} greedy tokens stay with KV in {kept}")
    assert tokens > 10 * PROMPTS
    assert same >= 0.95 * tokens
