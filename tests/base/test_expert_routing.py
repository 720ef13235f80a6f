"""The setting of expert routing: what it says, and what is refused."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engine_roles import engines_of_roles
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError
from agentrt.base.expert_routing import ExpertRouting, expert_routing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trained", ExpertRouting()),
        ("threshold=0.1", ExpertRouting("threshold", 0.1)),
        ("capacity=1.25", ExpertRouting("capacity", 1.25)),
        ("capacity=2,drop", ExpertRouting("capacity", 2.0, drops=True)),
        ("my.module:route", ExpertRouting("function", function="my.module:route")),
    ],
)
def test_each_way_is_read(text, expected):
    assert expert_routing(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("best", "is unknown"),
        ("", "is unknown"),
        ("threshold=0", "'0' is no number above 0 and at most 1"),
        ("threshold=1.5", "at most 1"),
        ("threshold=0.1,drop", "is unknown"),
        ("capacity=", "'' is no number above 0"),
        ("capacity=inf", "is no number above 0"),
        ("capacity=nan", "is no number above 0"),
        ("capacity=1,next", "is unknown"),
        ("capacity=1,", "is unknown"),
        (":route", "is unknown"),
        ("my module:route", "is unknown"),
        ("module:", "is unknown"),
    ],
)
def test_others_are_refused_with_all_that_can_be_given(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        expert_routing(text)
    assert "threshold=0.1, capacity=1.25, capacity=1.25,drop" in caught.value.hint


def in_file(tmp_path, text):
    path = tmp_path / "agentrt.toml"
    path.write_text(f"[engines.embedded]\n{text}", encoding="utf-8")
    return engines_of_roles(None, None, read_engine_file(path), Path("model"))["default"]


def test_the_file_takes_it_beside_the_format_of_weights(tmp_path):
    config = in_file(
        tmp_path, 'weights = "int8"\nexpert_routing = "capacity=2"\nexpert_load = true'
    )
    assert isinstance(config, EngineConfig)
    assert (config.weights, config.expert_routing, config.expert_load) == (
        *("int8", "capacity=2"),
        True,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expert_routing = 3", r"engines\.embedded\.expert_routing is"),
        ("expert_load = 1", r"engines\.embedded\.expert_load is"),
        ('expert_routing = "best"', "is unknown"),
    ],
)
def test_the_file_takes_nothing_else_for_it(text, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        in_file(tmp_path, text)


def test_answers_of_other_routings_are_others():
    one, other = (
        engine_identity(EngineConfig(Path("model"), expert_routing=routing))
        for routing in ("trained", "capacity=1")
    )
    assert one != other
