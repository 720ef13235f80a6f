"""Log-probabilities of chats and of completions: the engine's, in the forms of the provider."""

import math
from typing import Any

import httpx
import pytest

from agentrt import program
from agentrt.app import open_runtime
from agentrt.base.segments import PromptIds
from agentrt.program import Chat
from agentrt.protocol.step_output import TokenLogprob
from agentrt.serve.answer_logprobs import LEAST, LogprobForm
from tests.serve.conftest import PATIENCE_S

openai = pytest.importorskip("openai")

CHAT = {"messages": [{"role": "user", "content": "Say something."}]}
TEXT = {"prompt": "Say hello."}
OWN = ("return_token_ids", "return_tokens_as_token_ids", "structured_outputs", "ignore_eos")
EQUAL = 1e-4


@pytest.fixture
def create(portal, own_server_url):
    """Makes an answer by the client of the provider: greedy, and short."""

    def answer(**fields: Any) -> Any:
        extra = {name: fields.pop(name) for name in OWN if name in fields}
        given = {"model": "tiny", "temperature": 0, "max_tokens": 12, "extra_body": extra, **fields}

        async def main() -> Any:
            http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S)
            async with openai.AsyncOpenAI(
                base_url=own_server_url, api_key="none", http_client=http, max_retries=0
            ) as sdk:
                api = sdk.completions if "prompt" in given else sdk.chat.completions
                found = await api.create(**given)
                return [one async for one in found] if fields.get("stream") else found

        return portal.call(main)

    return answer


@pytest.fixture
def embedded(portal, tiny, codec):
    """What the engine reports of the completion of a text."""

    def entries(prompt: str, **options: Any) -> tuple[TokenLogprob, ...]:
        @program
        async def complete() -> Any:
            node = Chat(pieces=(PromptIds(codec.text_ids(prompt)),)).generate(**options)
            await node
            return node.meta.logprobs

        async def main() -> Any:
            async with open_runtime(engine=tiny, place="thread") as runtime:
                return await runtime.run(complete)

        found: tuple[TokenLogprob, ...] = portal.call(main)
        return found

    return entries


def near(found: Any, wanted: Any) -> bool:
    return math.isclose(found, wanted, abs_tol=EQUAL)


def test_a_completion_has_the_numbers_of_the_engine(create, embedded):
    sampled = {"temperature": 0.7, "presence_penalty": 0.5, "seed": 3}
    told = create(**TEXT, **sampled, logprobs=3, return_tokens_as_token_ids=True)
    openai.types.Completion.model_validate(told.model_dump(), strict=True)
    found = told.choices[0].logprobs
    wanted = embedded(TEXT["prompt"], **sampled, logprobs=3, max_tokens=12)
    assert found.tokens == [f"token_id:{one.token_id}" for one in wanted]
    assert all(map(near, found.token_logprobs, [one.logprob for one in wanted]))
    for pairs, one in zip(found.top_logprobs, wanted, strict=True):
        named = {f"token_id:{token_id}": logprob for token_id, logprob in one.top}
        assert pairs.keys() == named.keys() | {f"token_id:{one.token_id}"}
        assert all(near(pairs[name], logprob) for name, logprob in named.items())
    assert any(len(pairs) == 4 for pairs in found.top_logprobs), "one is not among the likeliest"


def test_a_chat_has_them_by_token(create, codec):
    told = create(**CHAT, logprobs=True, top_logprobs=2, return_token_ids=True)
    openai.types.chat.ChatCompletion.model_validate(told.model_dump(), strict=True)
    (found,) = told.choices
    entries = found.logprobs.content
    assert len(entries) == 12
    assert b"".join(bytes(one.bytes) for one in entries) == b"".join(
        map(codec.bytes_of, found.token_ids)
    )
    for one in entries:
        assert one.token == bytes(one.bytes).decode("utf-8", "replace")
        first, second = one.top_logprobs
        assert (first.bytes, first.logprob) == (one.bytes, one.logprob), "it is greedy"
        assert second.logprob <= first.logprob <= 0


@pytest.mark.parametrize(
    "asked", [{**CHAT, "logprobs": True, "top_logprobs": 2}, {**TEXT, "logprobs": 2}]
)
def test_a_stream_has_the_same_ones_with_their_tokens(asked, create):
    whole = create(**asked, return_token_ids=True).choices[0].logprobs.model_dump()
    chunks = create(**asked, return_token_ids=True, stream=True)
    parts = [one.choices[0] for one in chunks]
    streamed: dict[str, list[Any]] = {}
    for part in parts:
        logprobs = part.logprobs.model_dump() if part.logprobs is not None else {}
        lists = {name: value for name, value in logprobs.items() if value is not None}
        assert {len(value) for value in lists.values()} <= {len(part.token_ids)}
        for name, value in lists.items():
            streamed.setdefault(name, []).extend(value)
    assert streamed == {name: value for name, value in whole.items() if value is not None}


def test_none_is_asked_for_and_none_comes(create):
    assert create(**CHAT).choices[0].logprobs is None
    assert create(**TEXT).choices[0].logprobs is None


def test_no_alternatives_leave_the_token_itself(create):
    (chat,), (text,) = (
        create(**CHAT, logprobs=True).choices,
        create(**TEXT, logprobs=0).choices,
    )
    assert [one.top_logprobs for one in chat.logprobs.content] == [[]] * 12
    found = text.logprobs
    own = zip(found.tokens, found.token_logprobs, strict=True)
    assert found.top_logprobs == [{name: logprob} for name, logprob in own]


def test_offsets_are_places_in_the_text(create):
    (found,) = create(**TEXT, logprobs=1).choices
    logprobs = found.logprobs
    for at, token in zip(logprobs.text_offset, logprobs.tokens, strict=True):
        if not token.startswith(("bytes:", "token_id:")):
            assert found.text[at : at + len(token)] == token


def test_a_token_that_is_forced_has_no_alternatives(create):
    (found,) = create(**TEXT, logprobs=2, structured_outputs={"regex": "forced [01]"}).choices
    forced = [at for at, pairs in enumerate(found.logprobs.top_logprobs) if not pairs]
    assert forced
    assert all(found.logprobs.token_logprobs[at] == 0.0 for at in forced)
    assert any(found.logprobs.top_logprobs)


def test_a_stop_string_inside_what_is_forced_ends_ids_and_entries(create):
    asked = {"structured_outputs": {"regex": "one two three four"}, "return_token_ids": True}
    (found,) = create(**TEXT, **asked, logprobs=1, stop="two", max_tokens=40).choices
    assert found.text == "one "
    assert len(found.logprobs.tokens) == len(found.token_ids)


class Bytes:
    """Tokens of which some are no text, and some are unused."""

    def bytes_of(self, token_id: int) -> bytes:
        return {1: b"a", 2: b"\xc3", 3: b"\xa9", 4: "é".encode()}.get(token_id, b"")


def test_tokens_that_are_no_text_keep_their_bytes():
    form = LogprobForm(Bytes(), 2, names_ids=False)  # type: ignore[arg-type]
    entries = [
        TokenLogprob(2, -1.0, ((1, -0.5), (9, -0.75))),
        TokenLogprob(3, float("-inf"), ((4, -0.25),)),
        TokenLogprob(1, 0.0, forced=True),
    ]
    assert form.of_text(entries) == {
        "tokens": ["bytes:\\xc3", "bytes:\\xa9", "a"],
        "token_logprobs": [-1.0, LEAST, 0.0],
        "top_logprobs": [
            {"a": -0.5, "token_id:9": -0.75, "bytes:\\xc3": -1.0},
            {"é": -0.25, "bytes:\\xa9": LEAST},
            {},
        ],
        "text_offset": [0, 1, 1],
    }
    (one, *_) = form.of_chat(entries)["content"]
    assert (one["token"], one["bytes"]) == ("�", [0xC3])


def test_choices_are_chosen_with_their_numbers(create):
    asked = {"structured_outputs": {"choice": ["yes", "no"]}}
    (found,) = create(**CHAT, **asked, logprobs=True, top_logprobs=5).choices
    assert "".join(one.token for one in found.logprobs.content) == found.message.content
