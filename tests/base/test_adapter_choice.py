"""Adapters as flags, the file and Python name them."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.base.adapter_choice import adapters_of, with_adapters
from agentrt.base.config import EngineConfig, LoraAdapter
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError


def in_file(folder: Path, text: str) -> EngineConfig:
    path = folder / "agentrt.toml"
    path.write_text(text)
    settings = EngineSelection("embedded").settings(read_engine_file(path), folder)
    assert isinstance(settings, EngineConfig)
    return settings


def test_a_file_names_directories_beside_itself(tmp_path: Path) -> None:
    found = in_file(tmp_path, '[engines.embedded]\nadapters = { judge = "j", coder = "/c" }')
    assert found.adapters == (
        LoraAdapter("judge", tmp_path / "j"),
        LoraAdapter("coder", Path("/c")),
    )


@pytest.mark.parametrize("given", ['"judge"', "{ judge = 1 }", '["judge"]'])
def test_a_file_with_something_else(tmp_path: Path, given: str) -> None:
    with pytest.raises(UsageError, match=r"engines\.embedded\.adapters is no table"):
        in_file(tmp_path, f"[engines.embedded]\nadapters = {given}")


def test_flags_go_before_the_file() -> None:
    kept, old = LoraAdapter("coder", Path("c")), LoraAdapter("judge", Path("old"))
    config = EngineConfig(Path("m"), adapters=(kept, old))
    found = with_adapters(config, ["judge=new=1"])
    assert found.adapters == (kept, LoraAdapter("judge", Path("new=1")))
    assert with_adapters(config, []) is config


@pytest.mark.parametrize("given", ["judge", "=dir", "judge=", "a b=dir", "ju/dge=dir"])
def test_a_flag_that_is_no_adapter(given: str) -> None:
    with pytest.raises(UsageError) as caught:
        adapters_of([given])
    assert caught.value.hint


def test_a_name_comes_once() -> None:
    with pytest.raises(UsageError, match="two adapters are named 'a'"):
        adapters_of(["a=x", "a=y"])


def test_answers_of_another_adapter_are_not_those_of_this_one(tmp_path: Path) -> None:
    plain = EngineConfig(tmp_path)
    folder = tmp_path / "adapter"
    folder.mkdir()
    matrices = folder / "adapter_model.safetensors"
    matrices.write_bytes(b"1")
    adapted = replace(plain, adapters=(LoraAdapter("judge", folder),))
    before = engine_identity(adapted)
    assert before != engine_identity(plain)
    matrices.write_bytes(b"22")
    assert engine_identity(adapted) != before
