"""Scores of options over HTTP are those of the embedded engine, or they are refused."""

from typing import Any, Literal

import pytest

from agentrt import RemoteEngineConfig, RequestRejected, Score, Unsupported, chat, program
from agentrt.app import open_runtime
from tests.remote.hostile_server import DONE, event, head, serving

MODELS = b'{"data": [{"id": "tiny", "max_model_len": 4096}]}'

ASK = chat(system="Be brief.").user("Which one?")
Options = Literal["left", "right", "left, then right"]
EQUAL = 1e-4


@program
async def picked(temperature: float) -> tuple[str, tuple[Score[str], ...]]:
    node = ASK.generate(Options, scored=True, temperature=temperature, seed=4)
    return await node, node.scores


@pytest.fixture(scope="module")
def play(portal):
    """Plays the program on an engine."""

    def run(engine: Any, temperature: float = 0.0) -> Any:
        async def main() -> Any:
            async with open_runtime(engine=engine, place="thread") as runtime:
                return await runtime.run(picked, temperature)

        return portal.call(main)

    return run


def remote(kind: str, url: str, tiny: Any, **more: Any) -> RemoteEngineConfig:
    given = {"model": "tiny", "tokenizer": str(tiny.model_path), **more}
    return RemoteEngineConfig(kind=kind, address=url, **given)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_our_own_server_scores_as_the_embedded_engine(temperature, play, own_server_url, tiny):
    value, wanted = play(tiny, temperature)
    served = remote("agentrt", own_server_url.removesuffix("/v1"), tiny)
    again, found = play(served, temperature)
    assert again == value
    assert [one.value for one in found] == [one.value for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=EQUAL)
        assert one.probability == pytest.approx(other.probability, abs=EQUAL)
        assert one.tokens == other.tokens


def test_other_engines_are_refused_with_a_hint(play, server_url, own_server_url, tiny):
    for engine in (
        remote("vllm", server_url, tiny),
        remote("agentrt", own_server_url.removesuffix("/v1"), tiny, tokenizer=""),
    ):
        with pytest.raises(Unsupported, match="does not score choices") as caught:
            play(engine)
        assert "tokenizer" in str(caught.value.hint)


async def without_scores(path, body, writer):
    """A server that does not know the field, and drops it."""
    if path.endswith("/models"):
        writer.write(head(kind="application/json") + MODELS)
    else:
        ids = {"index": 0, "text": "left", "token_ids": [5], "finish_reason": "stop"}
        writer.write(head() + event({"choices": [ids]}) + DONE)
    await writer.drain()


def test_a_server_that_drops_the_field_is_an_error(portal, tiny):
    async def main():
        async with (
            serving(without_scores) as url,
            open_runtime(engine=remote("agentrt", url, tiny)) as runtime,
        ):
            await runtime.run(picked, 0.0)

    with pytest.raises(RequestRejected, match="sent 0 scores of 3 options"):
        portal.call(main)
