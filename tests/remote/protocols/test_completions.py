"""Completions of token ids: bodies, and events that bring ids."""

import pytest

from agentrt.remote.protocols import WIRE_PROTOCOLS, WireRequest
from agentrt.remote.protocols.answer_parts import EndPart, TokenIdsPart, UsagePart
from agentrt.remote.protocols.answer_shape import Malformed

PROTOCOL = WIRE_PROTOCOLS["completions"]


def event(**choice):
    return {"choices": [{"index": 0, **choice}]}


def test_a_body_has_the_ids_of_its_prompt():
    request = WireRequest("m", (), {"max_tokens": 4}, token_ids=(1, 7), own={"priority": 3})
    assert PROTOCOL.body(request) == {
        "model": "m",
        "prompt": [1, 7],
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
        "priority": 3,
    }


def test_ids_come_and_text_is_left():
    reader = PROTOCOL.reader()
    assert reader.parts(event(text="", token_ids=None)) == []
    assert reader.parts(event(text="a", token_ids=[5, 6])) == [TokenIdsPart((5, 6))]
    assert reader.parts(event(text="held", token_ids=[])) == []
    ended = event(text="", token_ids=[2], finish_reason="stop", stop_reason=None)
    assert reader.parts(ended) == [TokenIdsPart((2,)), EndPart("stop")]
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    details = {"prompt_tokens_details": {"cached_tokens": 8}}
    assert reader.parts({"choices": [], "usage": usage | details}) == [UsagePart(9, 8, 3)]


def test_a_stop_string_is_named_in_the_words_of_both_servers():
    for name in ("stop_reason", "matched_stop"):
        parts = PROTOCOL.reader().parts(event(text="", finish_reason="stop", **{name: "end"}))
        assert parts == [EndPart("stop", "end")]


@pytest.mark.parametrize(
    "choice",
    [{"text": "a"}, {"text": "a", "token_ids": ["5"]}, {"text": "a", "token_ids": [-1]}],
    ids=["none", "texts", "negative"],
)
def test_an_answer_without_ids_is_malformed(choice):
    with pytest.raises(Malformed, match="token_ids"):
        PROTOCOL.reader().parts(event(**choice))
