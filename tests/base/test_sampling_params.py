"""Each sampling parameter has a range, whatever makes the request."""

import math
from dataclasses import fields, replace

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.sampling_params import MAX_STOP_CHARACTERS, SamplingParams


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", 10**18),
        ("max_tokens", 1.5),
        ("top_k", -1),
        ("top_k", 2**31),
        ("top_k", 10**400),
        pytest.param("top_k", 10**6000, id="an integer that cannot be written"),
        ("top_p", 0),
        ("min_p", math.nan),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("presence_penalty", math.inf),
        ("presence_penalty", 101),
        ("frequency_penalty", -math.inf),
        ("frequency_penalty", 10**400),
        ("repetition_penalty", math.inf),
        ("repetition_penalty", 0),
        ("repetition_penalty", 1e-300),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("logprobs", 21),
        ("stop", ("",)),
        ("stop", ("x",) * 50_000),
        ("stop", ("x" * (MAX_STOP_CHARACTERS + 1),)),
        ("stop", ("\ud800",)),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(name, value):
    with pytest.raises(UsageError, match=f"^{name}=.* is out of range") as raised:
        SamplingParams(**{name: value})
    assert raised.value.hint.startswith("Give ")
    assert len(str(raised.value)) < 200
    str(raised.value).encode()


@pytest.mark.parametrize(
    "given",
    [
        {"max_tokens": 2**31 - 1, "top_k": 2**31 - 1},
        {"seed": 2**64 - 1},
        {"seed": -(2**63)},
        {"temperature": 10, "top_p": 1e-9, "min_p": 1},
        {"presence_penalty": -100, "frequency_penalty": 100, "repetition_penalty": 0.01},
        {"stop": ("x" * MAX_STOP_CHARACTERS,) * 16},
    ],
)
def test_the_ends_of_a_range_belong_to_it(given):
    assert SamplingParams(**given)


def test_another_seed_leaves_every_other_parameter() -> None:
    given = SamplingParams(9, 0.5, 3, 0.9, 0.1, 0.2, 0.3, 1.1, 4, ("end",), 2, True)
    changed = [one.name for one in fields(given) if getattr(given, one.name) == one.default]
    assert changed == []  # a parameter that is not copied would be seen
    assert given.with_seed(8) == replace(given, seed=8)
