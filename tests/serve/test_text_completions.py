"""Completions of text and of token ids, as vLLM serves them, through the providers' own client."""

from typing import Any

import httpx
import pytest

from tests.serve.conftest import PATIENCE_S, client

openai = pytest.importorskip("openai")

LONG = "a prompt that is continued by its ids, and that fills some pages of memory " * 3


@pytest.fixture
def complete(portal, own_server_url):
    """Makes a completion by the client of the provider: greedy, and short."""

    def create(**fields: Any) -> Any:
        own = ("return_token_ids", "cache_salt", "priority", "session_id", "structured_outputs")
        extra = {name: fields.pop(name) for name in (*own, "ignore_eos") if name in fields}
        given = {"model": "tiny", "temperature": 0, "max_tokens": 8, "extra_body": extra, **fields}

        async def main() -> Any:
            http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S)
            async with openai.AsyncOpenAI(
                base_url=own_server_url, api_key="none", http_client=http, max_retries=0
            ) as sdk:
                found = await sdk.completions.create(**given)
                return [one async for one in found] if fields.get("stream") else found

        return portal.call(main)

    return create


@pytest.fixture
def refused(complete):
    """Why a completion is refused."""

    def ask(**fields: Any) -> tuple[int, dict[str, Any]]:
        with pytest.raises(openai.APIStatusError) as caught:
            complete(**fields)
        return caught.value.status_code, caught.value.body

    return ask


def test_a_completion_is_of_the_providers_type(complete, codec):
    told = complete(prompt="Say hello.")
    strict = openai.types.Completion.model_validate(told.model_dump(), strict=True)
    (choice,) = strict.choices
    assert (told.object, told.model, choice.index) == ("text_completion", "tiny", 0)
    assert (choice.finish_reason, choice.logprobs) == ("length", None)
    assert told.usage.prompt_tokens == len(codec.text_ids("Say hello."))
    assert told.usage.completion_tokens == 8
    assert "token_ids" not in choice.model_dump()


def test_text_and_its_ids_are_completed_alike(complete, codec):
    ids = list(codec.text_ids("Say hello."))
    by_text, by_ids = complete(prompt="Say hello."), complete(prompt=ids)
    alone = complete(prompt=[ids])
    texts = {one.choices[0].text for one in (by_text, by_ids, alone)}
    assert len(texts) == 1
    assert texts.pop()


def test_ids_of_output_and_prompt_are_reported(complete, codec):
    ids = list(codec.text_ids("Say hello."))
    choice = complete(prompt="Say hello.", return_token_ids=True).choices[0]
    assert choice.prompt_token_ids == ids
    assert len(choice.token_ids) == 8
    assert codec.detokenizer().feed_ids(choice.token_ids) == choice.text.rstrip("\ufffd")


def test_output_that_is_continued_by_ids_finds_its_kv(complete, codec):
    ids = list(codec.text_ids(LONG))
    first = complete(prompt=ids, max_tokens=40, ignore_eos=True, return_token_ids=True)
    written = first.choices[0].token_ids
    assert len(written) == 40
    more = [*ids, *written, *codec.text_ids(" and then")]
    usage = complete(prompt=more).usage
    page_tokens = 16
    assert usage.prompt_tokens == len(more)
    known = len(ids) + len(written) - 1  # the last token has no KV
    cached = usage.prompt_tokens_details.cached_tokens
    assert known - page_tokens < cached <= len(ids) + len(written)


def test_a_salt_keeps_prompts_apart(complete, codec):
    ids = list(codec.text_ids("salted " + LONG))
    usages = [complete(prompt=ids, cache_salt=salt).usage for salt in ("a", "b", "a")]
    cached = [one.prompt_tokens_details.cached_tokens for one in usages]
    assert cached[:2] == [0, 0]
    assert cached[2] >= 16


def test_a_stream_says_the_same(complete):
    asked = {"prompt": "Stream this.", "max_tokens": 24, "return_token_ids": True}
    whole = complete(**asked).choices[0]
    chunks = complete(**asked, stream=True, stream_options={"include_usage": True})
    *parts, usage = chunks
    choices = [part.choices[0] for part in parts]
    assert "".join(one.text for one in choices) == whole.text
    assert [i for one in choices for i in one.token_ids] == whole.token_ids
    assert choices[0].prompt_token_ids == whole.prompt_token_ids
    assert not any("prompt_token_ids" in one.model_dump() for one in choices[1:])
    assert [one.finish_reason for one in choices] == [None] * (len(choices) - 1) + ["length"]
    assert (usage.choices, usage.usage.completion_tokens) == ([], 24)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_ids_of_chats_are_those_of_their_prompts(ask, wire, codec):
    whole = ask(max_tokens=12, return_token_ids=True).json()
    response = ask(max_tokens=12, return_token_ids=True, stream=True)
    chunks = wire.events(response.text)
    choice = whole["choices"][0]
    assert len(choice["token_ids"]) == 12
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert len(whole["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
    streamed = [i for chunk in chunks for i in chunk["choices"][0]["token_ids"]]
    assert streamed == choice["token_ids"]


def test_sampling_and_stops_are_those_of_chats(complete):
    drawn = [
        complete(prompt="Draw.", temperature=1.0, max_tokens=16, seed=seed).choices[0].text
        for seed in (5, 5, 6)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    whole = complete(prompt="Go on.", max_tokens=24).choices[0].text
    stop = whole[5:8]
    ended = complete(prompt="Go on.", max_tokens=24, stop=stop).choices[0]
    assert ended.text == whole[: whole.index(stop)]
    assert (ended.finish_reason, ended.stop_reason) == ("stop", stop)


def test_a_completion_without_a_limit_has_sixteen_tokens(complete):
    assert complete(prompt="Go on.", max_tokens=None, ignore_eos=True).usage.completion_tokens == 16


@pytest.mark.parametrize("prompt", ["Pick.", [5, 6, 7]])
def test_forms_are_held(prompt, complete):
    chosen = complete(prompt=prompt, structured_outputs={"choice": ["yes", "no"]})
    assert chosen.choices[0].text in ("yes", "no")
    assert chosen.choices[0].finish_reason == "stop"


def test_a_long_body_is_read_alike(complete, codec):
    """It is read in a process, for its length: here for its stop strings."""
    ids, stops = list(codec.text_ids("Say hello.")), [f"{number:01000}" for number in range(9)]
    here, there = complete(prompt=ids), complete(prompt=ids, stop=stops)
    assert there.choices[0].text == here.choices[0].text
    assert there.usage.prompt_tokens == len(ids)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"prompt": [3, 10**9]}, "prompt", "prompt.1: 1000000000 is no token id"),
        ({"prompt": [3, -1]}, "prompt", "prompt.1: -1 is no token id"),
        ({"prompt": [3, "x"]}, "prompt.1", "integer"),
        ({"prompt": [3, 1.5]}, "prompt.1", "integer"),
        ({"prompt": ["a", "b"]}, "prompt", "2 prompts in one request are not served"),
        ({"prompt": [[1], [2]]}, "prompt", "2 prompts in one request are not served"),
        ({"prompt": ""}, "prompt", "at least one token"),
        ({"prompt": []}, "prompt", "at least one token"),
        ({"prompt": "a", "echo": True}, "echo", ""),
        ({"prompt": "a", "logprobs": 21}, "logprobs", "less than or equal to 20"),
        ({"prompt": "a", "logprobs": True}, "logprobs", "integer"),
        ({"prompt": "a", "n": 2}, "n", ""),
        ({"prompt": "a", "best_of": 2}, "best_of", ""),
        ({"prompt": "a", "suffix": "b"}, "suffix", ""),
        ({"prompt": "a", "priority": "first"}, "priority", "integer"),
        ({"prompt": "a", "priority": True}, "priority", "integer"),
        ({"prompt": "a", "session_id": 7}, "session_id", "string"),
        ({"prompt": "a", "cache_salt": 7}, "cache_salt", "string"),
    ],
)
def test_a_wrong_field_is_one_clear_400(fields, param, words, refused):
    status, error = refused(**fields)
    assert status == 400
    assert error["param"] == param
    assert words in error["message"]


def test_a_prompt_that_fills_the_window_is_refused(refused, codec):
    status, error = refused(prompt=[5] * codec.window_tokens)
    assert (status, error["code"]) == (400, "context_length_exceeded")


def test_tokens_of_text_and_of_chats(portal, own_server_url, codec, ask):
    async def main() -> list[httpx.Response]:
        async with client(own_server_url.removesuffix("/v1")) as http:
            message = {"role": "user", "content": "Say hello."}
            asked: list[dict[str, Any]] = [
                {"prompt": "Say hello."},
                {"model": "tiny", "messages": [message]},
                {"prompt": "a", "messages": [message]},
                {"model": "other", "prompt": "a"},
            ]
            found = [await http.post("/tokenize", json=one) for one in asked]
            back = {"tokens": found[0].json()["tokens"]}
            return [*found, await http.post("/detokenize", json=back)]

    text, chat, both, other, back = portal.call(main)
    ids = list(codec.text_ids("Say hello."))
    assert text.json() == {
        "count": len(ids),
        "max_model_len": codec.window_tokens,
        "tokens": ids,
    }
    usage = ask(text="Say hello.").json()["usage"]
    assert chat.json()["count"] == usage["prompt_tokens"]
    assert [one.status_code for one in (both, other)] == [400, 404]
    assert back.json() == {"prompt": "Say hello."}


def test_ids_that_are_no_tokens_have_no_text(portal, own_server_url):
    async def main() -> httpx.Response:
        async with client(own_server_url.removesuffix("/v1")) as http:
            return await http.post("/detokenize", json={"tokens": [1, 10**9]})

    response = portal.call(main)
    assert response.status_code == 400
    assert "tokens.1" in response.json()["error"]["message"]
