"""Log-probabilities over HTTP are those of the embedded engine, or they are refused."""

import math
from typing import Any, Literal

import httpx
import pytest

from agentrt import RemoteEngineConfig, Unsupported, chat, program
from agentrt.app import open_runtime
from agentrt.base.engines.engine_kind import engine_kind
from agentrt.base.sampling_params import SamplingParams
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.step_output import TokenLogprob
from agentrt.remote.logprob_fields import logprob_fields
from agentrt.remote.remote_server import RemoteServer
from agentrt.remote.several_engines import joint_capabilities

ASK = chat(system="Be brief.").user("Go on.")
EQUAL = 1e-4
Entries = tuple[TokenLogprob, ...]


@program
async def free(options: dict[str, Any]) -> tuple[str, Entries, int]:
    node = ASK.generate(**options)
    pieces = [piece async for piece in node.stream()]
    return "".join(pieces), node.meta.logprobs, len(node.output_ids)


@program
async def picked(options: dict[str, Any]) -> tuple[str, Entries, int]:
    node = ASK.generate(Literal["left", "right"], **options)
    return await node, node.meta.logprobs, len(node.output_ids)


PROGRAMS = {"text": free, "choice": picked}
DRAWN = {"temperature": 0.7, "presence_penalty": 0.5, "top_k": 40, "seed": 3}


@pytest.fixture(scope="module")
def play(portal, tiny):
    """Plays a program on an engine."""

    def run(engine: Any, called: Any, options: dict[str, Any]) -> Any:
        async def main() -> Any:
            async with open_runtime(engine=engine, place="thread") as runtime:
                return await runtime.run(called, options)

        return portal.call(main)

    return run


def remote(kind: str, url: str, tiny: Any, **more: Any) -> RemoteEngineConfig:
    given = {"model": "tiny", "tokenizer": str(tiny.model_path), **more}
    return RemoteEngineConfig(kind=kind, address=url, **given)


def check_equal(found: Entries, wanted: Entries, *, forced: bool) -> None:
    assert [one.token_id for one in found] == [one.token_id for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert math.isclose(one.logprob, other.logprob, abs_tol=EQUAL)
        if forced:
            assert one.forced == other.forced
            assert [pair[0] for pair in one.top] == [pair[0] for pair in other.top]
        tops = dict(one.top)
        for token_id, logprob in other.top:
            assert math.isclose(tops[token_id], logprob, abs_tol=EQUAL)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_our_own_server_reports_those_of_the_embedded_engine(
    name, options, play, own_server_url, tiny
):
    options = {**options, "max_tokens": 20, "logprobs": 3}
    text, wanted, _ = play(tiny, PROGRAMS[name], options)
    served = remote("agentrt", own_server_url.removesuffix("/v1"), tiny)
    again, found, tokens = play(served, PROGRAMS[name], options)
    assert again == text
    assert len(found) == tokens > 0
    check_equal(found, wanted, forced=True)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", PROGRAMS)
def test_those_of_a_server_are_read_by_their_ids(name, temperature, play, server_url, tiny):
    options = {"temperature": temperature, "max_tokens": 20, "logprobs": 3, "seed": 5}
    _, wanted, _ = play(tiny, PROGRAMS[name], options)
    _, found, tokens = play(remote("vllm", server_url, tiny), PROGRAMS[name], options)
    assert len(found) == tokens > 0
    assert all(len(one.top) <= 3 for one in found)
    check_equal(found, wanted, forced=False)


def test_a_text_that_breaks_off_has_one_entry_a_token(play, server_url, tiny):
    options = {"temperature": 0.0, "max_tokens": 106, "ignore_eos": True, "logprobs": 2}
    broken = remote("vllm", server_url, tiny, model="tiny-cut", limits={"pause_s": 0.0})
    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])
    text, found, tokens = play(broken, free, options)
    assert len(httpx.get(f"{server_url}/v1/seen").json()["requests"]) > before + 1
    assert len(found) == tokens == 106
    whole, wanted, _ = play(tiny, free, options)
    assert text == whole
    check_equal(found, wanted, forced=False)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a temperature": ({"temperature": 0.7}, "temperature would change"),
    "a penalty": ({"frequency_penalty": 0.5}, "frequency_penalty would change"),
    "a cut": ({"temperature": 1.0, "top_p": 0.9}, "top_p would change"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_numbers_than_ours_are_refused(name, play, server_url, tiny):
    options, words = REFUSED[name]
    with pytest.raises(Unsupported, match=words) as caught:
        play(remote("vllm", server_url, tiny), free, {**options, "logprobs": 2})
    assert "temperature 0 or 1" in str(caught.value.hint)


def test_messages_have_none_and_the_hint_names_the_tokenizer(play, server_url, tiny):
    with pytest.raises(Unsupported, match="reports no logprobs") as caught:
        play(remote("vllm", server_url, tiny, tokenizer=""), free, {"logprobs": 2})
    assert "tokenizer" in str(caught.value.hint)


def test_cuts_do_not_matter_to_the_likeliest_token(tiny):
    server = server_of("vllm")
    greedy = SamplingParams(logprobs=4, top_p=0.5)
    assert logprob_fields(greedy, server) == {"logprobs": 4, "return_tokens_as_token_ids": True}
    assert logprob_fields(SamplingParams(), server) == {}


def test_a_kind_that_names_alternatives_by_their_text_is_refused():
    with pytest.raises(Unsupported, match="by their text"):
        logprob_fields(SamplingParams(logprobs=1), server_of("sglang"))


def server_of(kind: str) -> RemoteServer:
    codec: Any = object()
    return RemoteServer("here", "m", tokens=engine_kind(kind).tokens, codec=codec)


def test_several_engines_report_them_if_each_does():
    every = [Capabilities("remote", "m", "tokens", logprobs=one) for one in (True, False)]
    assert not joint_capabilities(every, 0).logprobs
    assert joint_capabilities(every[:1], 0).logprobs
