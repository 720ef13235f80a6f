"""Which rows a sweep has, and which prompts a round."""

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.bench.engine.points import points_of, prompts_of
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.shapes import SHAPES, shape_named
from agentrt.lab.checkpoints.weights import FIRST_WORD_ID

MICRO = SHAPES["micro"]


def points(**changed):
    asked = {"batch": "1,4", "prompt": "16,32", "new": 8, "shared": "0,64"}
    return points_of(MICRO, EngineFlags(**{**asked, **changed}))


def test_a_sweep_is_every_combination() -> None:
    found = [(one.batch, one.prompt_tokens, one.shared_tokens) for one in points()]
    assert found == [
        (1, 16, 0),
        (4, 16, 0),
        (1, 32, 0),
        (4, 32, 0),
        (1, 80, 64),
        (4, 80, 64),
        (1, 96, 64),
        (4, 96, 64),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"shared": "-1"},
        {"prompt": "4096"},
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(changed) -> None:
    with pytest.raises(UsageError):
        points(**changed)


def test_an_unknown_shape_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="tiny, half"):
        shape_named("huge")


def test_all_arms_get_the_same_prompts_and_rounds_differ() -> None:
    point = points()[5]
    first = prompts_of(point, MICRO.vocabulary, 1)
    assert first == prompts_of(point, MICRO.vocabulary, 1)
    assert [len(prompt) for prompt in first] == [80] * 4
    assert len({tuple(prompt[:64]) for prompt in first}) == 1
    assert len({tuple(prompt[64:]) for prompt in first}) == 4
    again = prompts_of(point, MICRO.vocabulary, 2)
    assert first[0][:16] != again[0][:16]
    assert all(FIRST_WORD_ID <= token < MICRO.vocabulary for prompt in first for token in prompt)
