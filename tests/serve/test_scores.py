"""Options of a choice that are scored: a field of our own server beside `structured_outputs`."""

import pytest

CHOICE = {"structured_outputs": {"choice": ["yes", "no", "yes, please"]}, "scored": True}


def test_a_choice_comes_with_the_scores_of_its_options(ask):
    (found,) = ask(**CHOICE).json()["choices"]
    scores = found["scores"]
    assert [one["text"] for one in scores] == ["yes", "no", "yes, please"]
    best = max(scores, key=lambda one: one["logprob"])
    assert found["message"]["content"] == best["text"]
    assert sum(one["probability"] for one in scores) == pytest.approx(1.0)
    assert all(one["tokens"] >= 2 and one["logprob"] < 0 for one in scores)


def test_a_stream_ends_with_them_once(ask, wire):
    whole = ask(**CHOICE).json()["choices"][0]["scores"]
    events = wire.events(ask(**CHOICE, stream=True).text)
    told = [choice["scores"] for one in events for choice in one["choices"] if "scores" in choice]
    assert told == [whole]
    assert events[-1]["choices"][0]["scores"] == whole


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"scored": True}, "only the options of structured_outputs.choice"),
        ({"scored": True, "structured_outputs": {"regex": "a|b"}}, "only the options"),
        ({**CHOICE, "logprobs": True}, "scored=True decodes nothing"),
        ({**CHOICE, "stop": "x"}, "scored=True decodes nothing"),
    ],
)
def test_what_cannot_be_scored_is_refused(fields, words, ask):
    response = ask(**fields)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]
