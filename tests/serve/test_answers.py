"""What comes back: in one piece and as a stream, free and constrained, with what it cost."""

import json

import pytest

from agentrt.base.segments import Close, Open, Text
from agentrt.serve import ApiKey
from agentrt.serve.answer_logprobs import NewTokens

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
PAINT = {
    "type": "function",
    "function": {"name": "paint", "description": "Paints a wall.", "parameters": SCHEMA},
}
WASH = {"type": "function", "function": {"name": "wash", "parameters": SCHEMA}}


def choice(response):
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def test_an_answer_has_the_fields_that_clients_want(ask, codec):
    told = ask(text="Say hello.").json()
    assert told["object"] == "chat.completion"
    assert told["model"] == "tiny"
    assert isinstance(told["id"], str)
    assert isinstance(told["system_fingerprint"], str)
    (one,) = told["choices"]
    assert one["message"].keys() == {"role", "content", "refusal"}
    assert (one["index"], one["finish_reason"]) == (0, "length")
    prompt = codec.encode((), (Open("user"), Text("Say hello."), Close())).token_ids
    assert told["usage"]["prompt_tokens"] == len(prompt)
    assert told["usage"]["completion_tokens"] == 8
    assert told["usage"]["total_tokens"] == len(prompt) + 8


def test_a_stream_says_the_same(ask, wire):
    whole = ask(text="Stream this.").json()
    response = ask(text="Stream this.", stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *chunks, last, usage = wire.events(response.text)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]
    assert last["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 8
    assert {chunk["id"] for chunk in (first, *chunks, last, usage)} == {first["id"]}


def test_a_stream_tells_no_usage_unasked(ask, wire):
    assert not any("usage" in chunk for chunk in wire.events(ask(stream=True).text))


def test_a_prompt_seen_before_is_cached(ask):
    text = "one two three four five six seven eight nine ten eleven twelve " * 3
    counts = [
        ask(text=text).json()["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)
    ]
    assert counts[0] < 16 <= counts[1]


def test_a_salt_of_the_client_keeps_its_prompts_apart(ask):
    text = "a prompt that is salted by its client, which fills some pages of memory " * 3
    salts = ["a", "b", "a", None]
    usages = [ask(text=text, cache_salt=salt).json()["usage"] for salt in salts]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[:2] == [0, 0]
    assert cached[2] >= 16
    assert cached[3] < 16, "the first tokens of the template at most"
    assert len({usage["prompt_tokens"] for usage in usages}) == 1


def test_a_prompt_is_cached_for_its_key_only(portal, own_server, wire):
    keys = [ApiKey("one", "secret-1"), ApiKey("two", "secret-2")]
    question = wire.body("a prompt that two clients ask, each under a key of its own " * 3)

    async def main():
        async with own_server(keys=tuple(keys)) as url, wire.client(url) as client:
            found = []
            for key in (*keys, *keys):
                headers = {"authorization": f"Bearer {key.secret}"}
                found.append(await client.post("/chat/completions", json=question, headers=headers))
            return [response.json() for response in found]

    told = portal.call(main)
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in told]
    assert cached[:2] == [0, 0]
    assert cached[2] == cached[3] >= 16
    assert len({one["choices"][0]["message"]["content"] for one in told}) == 1


def test_the_same_seed_draws_the_same(ask):
    texts = [
        choice(ask(temperature=1.0, max_tokens=16, seed=seed))["message"]["content"]
        for seed in (5, 5, 6)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_without_a_seed_answers_differ(ask):
    texts = {choice(ask(temperature=1.0, max_tokens=24))["message"]["content"] for _ in range(2)}
    assert len(texts) == 2


def test_a_stop_string_ends_it(ask):
    whole = choice(ask(max_tokens=24))["message"]["content"]
    stop = whole[5:8]
    one = choice(ask(max_tokens=24, stop=stop))
    assert one["message"]["content"] == whole[: whole.index(stop)]
    assert (one["finish_reason"], one["stop_reason"]) == ("stop", stop)


def test_a_length_can_be_forced(ask):
    forced = ask(max_tokens=300, ignore_eos=True, temperature=1.5, seed=1).json()
    assert forced["usage"]["completion_tokens"] == 300
    assert forced["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("fields", [{}, {"tool_choice": "auto"}, {"tool_choice": "none"}])
def test_a_length_is_forced_beside_tools(fields, ask):
    """Replays of recorded agents offer tools and fix lengths; a call would end the answer."""
    asked = {"tools": [PAINT, WASH], "max_tokens": 90, "temperature": 1.5, "seed": 1, **fields}
    forced = ask(ignore_eos=True, **asked).json()
    assert forced["usage"]["completion_tokens"] == 90
    assert forced["choices"][0]["finish_reason"] == "length"
    assert "tool_calls" not in forced["choices"][0]["message"]
    free = ask(**asked).json()
    assert free["usage"]["prompt_tokens"] == forced["usage"]["prompt_tokens"]


FORM = {"type": "json_schema", "json_schema": {"name": "wall", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"response_format": FORM}, lambda text: json.loads(text)["colour"] in ("red", "blue")),
        ({"structured_outputs": {"choice": ["up", "down"]}}, ("up", "down").__contains__),
        (
            {"structured_outputs": {"regex": "q[0-9]"}},
            lambda text: text[0] == "q" and len(text) == 2,
        ),
        ({"structured_outputs": {"grammar": 'start: "zq"\n'}}, "zq".__eq__),
        ({"structured_outputs": {"json": SCHEMA}}, lambda text: "colour" in json.loads(text)),
    ],
)
def test_a_form_is_kept(fields, holds, ask):
    one = choice(ask(max_tokens=64, temperature=1.0, **fields))
    assert one["finish_reason"] == "stop"
    assert holds(one["message"]["content"])


@pytest.mark.parametrize(
    ("choose", "names"),
    [
        ("required", {"paint", "wash"}),
        ({"type": "function", "function": {"name": "wash"}}, {"wash"}),
    ],
)
def test_a_call_that_is_required_is_made(choose, names, ask, wire):
    fields = {"tools": [PAINT, WASH], "tool_choice": choose, "parallel_tool_calls": False}
    one = choice(ask(max_tokens=64, temperature=1.0, seed=2, **fields))
    assert one["finish_reason"] == "tool_calls"
    assert one["message"]["content"] is None
    (call,) = one["message"]["tool_calls"]
    assert call["function"]["name"] in names
    assert json.loads(call["function"]["arguments"])["colour"] in ("red", "blue")
    streamed = wire.events(ask(max_tokens=64, temperature=1.0, seed=2, stream=True, **fields).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed]
    (again,) = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (again["index"], again["function"]) == (0, call["function"])


def test_a_chat_with_calls_and_results_is_taken(ask):
    call = {"id": "c1", "type": "function", "function": {"name": "paint", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Paint "}, {"type": "text", "text": "it."}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    told = ask(messages=messages, tools=[PAINT], tool_choice="none", ignore_eos=True)
    assert choice(told)["message"]["content"]


def test_a_call_among_text_is_found(portal, codec):
    """With `auto` a model may write text, calls, or both; a random one does neither well."""
    from agentrt.program import GenMeta
    from agentrt.serve.answer import ChatAnswer

    frame = codec.call_frame
    text = f'Let me see. {frame.first}{frame.before}paint{frame.middle}{{"colour":"red"}}'
    text += f"{frame.after}{frame.last}"
    answer = ChatAnswer("chatcmpl-000001", "tiny", 0, "text", frame, ())
    chunks = [chunk for char in text for chunk in answer.chunks(char, NewTokens())]
    chunks += answer.closing(GenMeta(finish_reason="stop"), NewTokens(), usage=False)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == "Let me see. "
    (call,) = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert call["function"] == {"name": "paint", "arguments": '{"colour":"red"}'}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_in_markup_are_sent_as_json():
    """A schema tells which arguments are texts; they may look like numbers."""
    from agentrt.base.segments import ArgumentFrame, CallFrame, ToolSchema
    from agentrt.program import GenMeta
    from agentrt.serve.answer import ChatAnswer

    one = ArgumentFrame("<parameter=", ">\n", "\n</parameter>\n")
    frame = CallFrame("<call=", ">\n", "</call>", argument=one)
    properties = {"zip": {"type": "string"}, "floor": {"type": "integer"}}
    tool = ToolSchema("send", "", {"type": "object", "properties": properties})
    text = frame.before + "send" + frame.middle
    text += frame.arguments_text('{"zip":"04109","floor":3}') + frame.after
    answer = ChatAnswer("chatcmpl-000001", "tiny", 0, "text", frame, (tool,))
    told = answer.whole(text, GenMeta(finish_reason="stop"), NewTokens())["choices"][0]["message"]
    assert told["content"] is None
    (call,) = told["tool_calls"]
    assert call["function"] == {"name": "send", "arguments": '{"zip":"04109","floor":3}'}
