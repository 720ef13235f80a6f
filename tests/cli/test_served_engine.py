"""The engine of `agentrt serve`: what a file says, and the flags before it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.cli.served_engine import served_engine, served_name

TABLE = """
[engines.embedded]
model = "models/mine"
weights = "int8"
dtype = "bfloat16"
speculate_tokens = "auto"
threads = 2
"""


def opened(path: Path, table: str = "", model: str = "", **flags: Any) -> Any:
    file = path / "agentrt.toml"
    file.write_text(table)
    given: dict[str, Any] = {"device": "cpu", "dtype": "", "threads": 0, "kv_tokens": 0} | flags
    return served_engine(model, {"AGENTRT_CONFIG": str(file)}, **given)


def test_a_file_says_what_is_served(tmp_path: Path) -> None:
    config = opened(tmp_path, TABLE)
    assert config.model_path == tmp_path / "models/mine"
    assert (config.weights, config.dtype, config.threads) == ("int8", "bfloat16", 2)
    assert config.speculate_tokens == "auto"
    assert served_name(config) == "mine"


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    config = opened(tmp_path, TABLE, "other", dtype="float32", threads=1, kv_tokens=100)
    assert (config.model_path, config.dtype, config.threads) == (Path("other"), "float32", 1)
    assert config.weights == "int8"
    assert config.kv_pages * config.page_tokens >= 100


def test_the_model_that_ships_is_served_without_a_file(tmp_path: Path) -> None:
    config = opened(tmp_path)
    assert config.model_path == embedded.path()
    assert config.dtype == "auto"
    assert served_name(config) == "embedded"


def test_a_remote_default_is_not_served(tmp_path: Path) -> None:
    remote = '[engines.far]\naddress = "http://127.0.0.1:9"\n[roles]\ndefault = "far"\n'
    assert opened(tmp_path, remote).model_path == embedded.path()


def test_a_wrong_setting_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"engines\.embedded\.weights = 'int5'"):
        opened(tmp_path, '[engines.embedded]\nweights = "int5"\n')


def test_the_model_is_an_argument_too(inside: Callable[..., Any]) -> None:
    told = inside("serve", "nowhere")
    assert told.code == 3
    assert "nowhere is not a directory" in told.lines[0]
    told = inside("serve", "embeded")
    assert (told.code, told.lines[2]) == (2, "fix:   did you mean embedded?")
