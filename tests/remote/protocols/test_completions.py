"""Completions of token ids: bodies, and events that bring ids."""

import pytest

from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.remote.protocols import WIRE_PROTOCOLS, WireRequest
from agentrt.remote.protocols.answer_parts import EndPart, ScoresPart, TokenIdsPart, UsagePart
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


def reported(names=("token_id:5",), values=(-1.0,), tops=({"token_id:5": -1.0},)):
    logprobs = {"tokens": list(names), "token_logprobs": list(values), "top_logprobs": list(tops)}
    return event(text="a", token_ids=[5], logprobs=logprobs)


def test_log_probabilities_come_with_their_ids_the_likeliest_first():
    top = {"token_id:5": -1.0, "token_id:6": -2.0, "token_id:8": -0.75, "token_id:7": -9999.0}
    (part,) = PROTOCOL.reader().parts(reported(tops=[top]))
    entry = TokenLogprob(5, -1.0, ((8, -0.75), (5, -1.0), (6, -2.0)))
    assert part == TokenIdsPart((5,), (entry,))


def test_a_token_without_alternatives_was_forced():
    (part,) = PROTOCOL.reader().parts(reported(values=[0.0], tops=[{}]))
    assert part == TokenIdsPart((5,), (TokenLogprob(5, 0.0, forced=True),))


WRONG = {
    "of another token": reported(names=["token_id:6"]),
    "of a text": reported(names=["a"]),
    "of too many": reported(names=["token_id:5"] * 2),
    "without a number": reported(values=[None]),
    "logits": reported(values=[3.5]),
    "likely logits": reported(tops=[{"token_id:5": -0.1, "token_id:6": -0.2}]),
    "not a number": reported(values=[float("nan")]),
    "alternatives by text": reported(tops=[{"a": -1.0}]),
    "no alternatives": reported(tops=[]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_are_no_log_probabilities_of_the_token_is_malformed(name):
    with pytest.raises(Malformed, match=r"logprobs|as a log-prob"):
        PROTOCOL.reader().parts(WRONG[name])


def test_scores_of_options_come_with_the_end():
    scores = [{"text": "a", "logprob": -1.5, "tokens": 2}, {"logprob": -9, "tokens": 3}]
    parts = PROTOCOL.reader().parts(event(text="", finish_reason="stop", scores=scores))
    assert parts == [ScoresPart((OptionScore(-1.5, 2), OptionScore(-9.0, 3))), EndPart("stop")]


@pytest.mark.parametrize("wrong", [{"tokens": 2}, {"logprob": 1.0}, {"logprob": -1, "tokens": -1}])
def test_what_is_no_score_is_malformed(wrong):
    with pytest.raises(Malformed):
        PROTOCOL.reader().parts(event(text="", finish_reason="stop", scores=[wrong]))
