"""Levers and the configurations that their combinations make."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.engines.engine_file import EngineFile
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.lab.tuning.candidates import SearchSpace, search_space
from agentrt.lab.tuning.levers import FORMATS, Levers, read_levers

ENGINES = {
    name: RemoteEngineConfig(name=name, address=f"http://{name}:1") for name in ("large", "small")
}
FILE = EngineFile(engines=ENGINES, roles={"default": "large", "planner": "large"})
OWN = EngineConfig(embedded.path())


def names(space: SearchSpace) -> list[str]:
    return [one.config.name for one in space.candidates]


def test_by_default_formats_and_drafts_are_searched() -> None:
    assert read_levers([], "", EngineFile(), OWN) == FORMATS
    space = search_space(FORMATS, EngineFile(), OWN, "embedded")
    found = [one.embedded for one in space.candidates]
    assert found[0] == OWN
    assert replace(OWN, weights="int4", activations="int8", kv_cache_dtype="int8") in found
    assert not [one for one in found if one and one.weights != "checkpoint" and one.dtype != "auto"]
    # The checkpoint's numbers are computed as float32 here: that dtype is no other configuration.
    assert not any(one and one.dtype == "float32" for one in found)
    assert len(found) == len({repr(one) for one in found})
    sizes = [one.memory for one in space.candidates]
    assert all(one is not None and one.weight_bytes and one.kv_token_bytes for one in sizes)
    ((why, left),) = space.left_out.items()
    assert "no activations in int8 run here" in why
    assert left[0] == "activations=int8"


def test_few_levers_come_before_many() -> None:
    levers: Levers = {"max_running": ("1", "2"), "threads": ("1", "2")}
    space = search_space(levers, EngineFile(), replace(OWN, threads=2), "embedded")
    counts = [len(one.choices) for one in space.candidates]
    assert counts == [0, 1, 1, 2, 2]
    assert names(space)[1:3] == ["max_running=1", "max_running=2"]


def test_each_role_may_have_each_model() -> None:
    levers = read_levers([], "large,small", FILE, ENGINES["large"])
    assert levers == {"engine": ("large", "small"), "roles.planner": ("large", "small")}
    space = search_space(levers, FILE, OWN, "large")
    assert names(space) == [
        "baseline",
        "roles.planner=small",
        "engine=small",
        "engine=small roles.planner=small",
    ]
    config = space.candidates[2].config
    assert (config.settings, config.roles) == (ENGINES["small"], {"planner": ENGINES["large"]})


def test_settings_of_an_engine_without_a_role_make_no_configuration() -> None:
    levers = read_levers(["engine=large,embedded", "max_running=1,2"], "", FILE, ENGINES["large"])
    space = search_space(levers, FILE, OWN, "large")
    assert names(space) == [
        "baseline",
        "engine=embedded max_running=1",
        "engine=embedded max_running=2",
    ]


def test_checkpoints_are_models_of_the_embedded_engine(tmp_path: Path) -> None:
    levers = read_levers([], f"small,{tmp_path}", FILE, OWN)
    assert levers["model"] == (str(tmp_path),)
    assert levers["engine"] == ("small", "embedded")


def test_there_is_a_bound_on_combinations() -> None:
    levers: Levers = {"max_running": tuple(map(str, range(1, 601)))}
    with pytest.raises(UsageError, match="600 combinations, more than 512"):
        search_space(levers, EngineFile(), OWN, "embedded")


@pytest.mark.parametrize(
    ("given", "models", "part"),
    [
        (["engine=large"], "small", "--models and --lever engine are the same lever"),
        (["threads=1", "threads=2"], "", "--lever threads is given twice"),
        (["roles.planner=smal"], "", "did you mean small"),
        (["threads=1,,2"], "", "is no lever"),
    ],
)
def test_levers_that_contradict_are_refused(given: list[str], models: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        read_levers(given, models, FILE, OWN)
