"""Options of a call are checked once and kept by what they say."""

import gc
from weakref import ref

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.sampling_params import SamplingParams
from agentrt.program import Chat, Overflow
from agentrt.program.call_options import checked_options


def test_the_same_options_are_checked_once() -> None:
    first = checked_options({"max_tokens": 7, "name": "river"})
    assert checked_options({"max_tokens": 7, "name": "river"}) is first
    assert (first.sampling.max_tokens, first.name, first.model) == (7, "river", "default")


def test_equal_numbers_of_other_types_are_other_options() -> None:
    assert type(checked_options({"temperature": 1}).sampling.temperature) is int
    assert type(checked_options({"temperature": 1.0}).sampling.temperature) is float
    checked_options({"max_tokens": 2})
    with pytest.raises(UsageError, match=r"max_tokens=2\.0 is out of range"):
        checked_options({"max_tokens": 2.0})  # type: ignore[typeddict-item]


def test_the_same_values_of_other_names_are_other_options() -> None:
    assert checked_options({"top_k": 3}).sampling.top_k == 3
    assert checked_options({"logprobs": 3}).sampling.top_k == 0


def test_stop_strings_in_a_list_may_change() -> None:
    stop = ["a"]
    assert checked_options({"stop": stop}).sampling.stop == ("a",)
    stop.append("b")
    assert checked_options({"stop": stop}).sampling.stop == ("a", "b")


def test_a_generation_has_a_seed_of_its_own_unless_one_is_given() -> None:
    own = checked_options({"top_p": 0.5, "stop": ("x",), "ignore_eos": True})
    wanted = SamplingParams(top_p=0.5, stop=("x",), ignore_eos=True, seed=9)
    assert own.sampling_with(9) == wanted
    assert checked_options({"seed": 4}).sampling_with(9) == SamplingParams(seed=4)
    assert own.with_max_tokens(3).sampling_with(9).max_tokens == 3


def test_functions_among_the_options_are_not_kept() -> None:
    class Shorter:
        def __call__(self, overflow: Overflow) -> Chat | None:
            return None

    shorter = Shorter()
    checked_options({"on_overflow": shorter})  # type: ignore[typeddict-unknown-key]
    watched = ref(shorter)
    del shorter
    gc.collect()
    assert watched() is None
