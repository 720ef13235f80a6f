"""Options are checked at run time too."""

from typing import Any, Literal

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.sampling_params import SamplingParams
from agentrt.program import GenOptions, regex
from agentrt.program.options import check_options, check_output, sampling_of
from agentrt.program.output import items_of, value_of


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_token": 3}, "no option 'max_token'.*Did you mean max_tokens"),
        ({"zzz": 3}, "no option 'zzz'.*There are: max_tokens"),
        ({"deadline": 0}, "deadline=0"),
        ({"on_limit": "stop"}, "on_limit='stop'"),
        ({"thinking": -1}, "thinking=-1"),
        ({"thinking": 64, "max_tokens": 64}, "thinking=64 .*below max_tokens=64"),
        ({"check": True, "retries": 11}, "retries=11"),
        ({"scored": True, "thinking": 5}, "thinking means nothing with it"),
        ({"scored": True, "stop": "."}, "stop means nothing with it"),
        ({"scored": True, "ignore_eos": True}, "ignore_eos means nothing with it"),
        ({"scored": True, "retries": 1}, "retries means nothing with it"),
    ],
)
def test_what_does_not_exist_is_refused(options: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_options(options)


@pytest.mark.parametrize(
    ("form", "options", "complaint"),
    [
        (int, {"stop": "x"}, "stop= would cut int off"),
        (Literal["a", "b"], {"stop": ["x"]}, "stop= would cut"),
        (regex("[a-z]"), {"check": True}, "check=True checks nothing of regex"),
        (str, {"check": True}, "check=True checks nothing of str"),
        (int, {"retries": 1}, "retries is for what is checked"),
        (int, {"scored": True}, "scored=True is for a choice"),
    ],
)
def test_options_that_exclude_the_output_are_refused(
    form: Any, options: Any, complaint: str
) -> None:
    output = value_of(form, check=bool(options.get("check")))
    with pytest.raises(UsageError, match=complaint):
        check_output(output, options)


def test_streams_and_calls_take_no_stop() -> None:
    with pytest.raises(UsageError, match="stop= would cut int off"):
        check_output(items_of(int), {"stop": "x"})


def test_every_option_reaches_the_engine() -> None:
    """All of `GenOptions` is either sampling or read by name; none is dropped."""
    options = GenOptions(
        max_tokens=7,
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        min_p=0.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        repetition_penalty=1.1,
        stop="end",
        seed=5,
        logprobs=2,
        ignore_eos=True,
    )
    assert sampling_of(options, seed=99) == SamplingParams(
        7, 0.5, 3, 0.9, 0.1, 0.2, 0.3, 1.1, seed=5, stop=("end",), logprobs=2, ignore_eos=True
    )
    rest = GenOptions.__annotations__.keys() - options.keys()
    by_name = {"name", "deadline", "on_limit", "on_overflow", "model", "describe"}
    assert rest == by_name | {"thinking", "check", "retries", "scored", "json_style", "cache"}


def test_a_seed_left_out_is_the_nodes_own() -> None:
    assert sampling_of({"stop": ["a", "b"]}, seed=99) == SamplingParams(seed=99, stop=("a", "b"))


def test_an_option_out_of_range_is_refused() -> None:
    with pytest.raises(UsageError, match="temperature=-1"):
        sampling_of({"temperature": -1}, seed=0)
