"""Memory for experts, as flags, files and `EngineConfig` give it."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engine_roles import engines_of_roles
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError
from agentrt.base.expert_memory import expert_memory, with_expert_memory

MODEL = Path("model")


def in_file(tmp_path, text):
    path = tmp_path / "agentrt.toml"
    path.write_text(f"[engines.embedded]\n{text}", encoding="utf-8")
    return engines_of_roles(None, None, read_engine_file(path), MODEL)["default"]


def test_a_flag_stands_above_the_file():
    config = EngineConfig(MODEL, expert_memory="1GiB")
    assert with_expert_memory(config, "2GB").expert_memory == "2GB"
    assert with_expert_memory(config, "") is config


def test_the_file_takes_it(tmp_path):
    config = in_file(tmp_path, 'expert_memory = "1.5GiB"')
    assert isinstance(config, EngineConfig)
    assert expert_memory(config.expert_memory) == 3 << 29


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expert_memory = 3", r"engines\.embedded\.expert_memory is"),
        ('expert_memory = "lots"', r"engines\.embedded\.expert_memory = 'lots' is no size"),
    ],
)
def test_the_file_takes_nothing_else_for_it(text, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        in_file(tmp_path, text)


def test_what_is_no_size_is_named_with_its_place():
    with pytest.raises(UsageError, match=r"--expert-memory '2 pages' is no size of memory"):
        with_expert_memory(EngineConfig(MODEL), "2 pages")
    with pytest.raises(UsageError, match=r"EngineConfig\(expert_memory='0'\) is no size"):
        expert_memory("0")


def test_answers_do_not_depend_on_it():
    one, other = (
        engine_identity(EngineConfig(MODEL, expert_memory=memory)) for memory in ("", "1GiB")
    )
    assert one == other
