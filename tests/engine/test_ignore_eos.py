"""Outputs that end tokens do not end: as long as they are asked to be, whatever the model wants."""

from dataclasses import replace

import pytest
import torch

from agentrt.base.constraint_spec import ConstraintSpec

PROMPT = list(range(40))
END, OTHER = 257, 258  # the latter begins the message of a user


@pytest.fixture
def ending(build, engine):
    """An engine over a model that wants to end all the time."""
    core = build()
    forward = core.executor.runner.forward

    def biased(parts):
        logits = forward(parts).clone()
        logits[:, [END, OTHER]] += torch.tensor([2e4, 1e4])
        return logits

    core.executor.runner.forward = biased
    return core


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_output_has_the_length_that_was_asked_for(temperature, ending, engine):
    how = {"max_tokens": 20, "temperature": temperature}
    ending.submit(engine.request(1, PROMPT, **how))
    ending.submit(engine.request(2, PROMPT, ignore_eos=True, **how))
    ending.submit(engine.request(3, PROMPT[:7], ignore_eos=True, **how))
    served = engine.drain(ending)
    assert (served.ends[1].reason, served.ids(1)) == ("stop", [])
    for number in (2, 3):
        assert served.ends[number].reason == "length"
        assert len(served.ids(number)) == 20
        assert not {END, OTHER} & set(served.ids(number))


def test_nothing_else_of_the_choice_changes(build, engine):
    """A model that does not end writes the same with and without."""
    texts = []
    for ignore_eos in (False, True):
        core = build()
        how = {"max_tokens": 12, "ignore_eos": ignore_eos}
        core.submit(engine.request(1, PROMPT, **how))
        texts.append(engine.drain(core).ids(1))
    assert texts[0] == texts[1]
    assert len(texts[0]) == 12


def test_a_replay_ends_before_its_limit(build, engine):
    """The limit that policies know is that of all calls of a site; the end is that of the call."""
    core = build(page_tokens=4)
    whole = {"max_tokens": 20, "ignore_eos": True}
    core.submit(engine.request(1, PROMPT, **whole))
    core.submit(replace(engine.request(2, PROMPT, **whole), replayed_tokens=7))
    core.submit(replace(engine.request(3, PROMPT, **whole), replayed_tokens=20))
    served = engine.drain(core)
    assert [served.ends[at].reason for at in (1, 2, 3)] == ["length", "stop", "stop"]
    assert served.ids(2) == served.ids(1)[:7]
    assert served.ids(3) == served.ids(1)


def test_special_tokens_are_no_alternative_either(ending, engine):
    ending.submit(engine.request(1, PROMPT, max_tokens=3, logprobs=20, ignore_eos=True))
    told = engine.drain(ending).logprobs(1)
    assert len(told) == 3
    assert all(not {END, OTHER} & dict(one.top).keys() for one in told)


def test_a_stop_string_still_ends_it(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=12, ignore_eos=True))
    text = engine.drain(core).text(1)
    core.submit(engine.request(2, PROMPT, max_tokens=12, ignore_eos=True, stop=(text[4:7],)))
    assert engine.drain(core).ends[2].stopped_by == text[4:7]


def test_it_contradicts_a_constraint(build, engine):
    core = build()
    spec = ConstraintSpec("choice", options=("a", "b"))
    core.submit(engine.request(1, PROMPT, constraint=spec, ignore_eos=True))
    error = engine.drain(core).ends[1].error
    assert error.type == "RequestRejected"
    assert "ignore_eos" in error.message
